"""The email that tells that a cluster is ready (C6), handed to this computer's own mail system."""

from __future__ import annotations

import shutil
import subprocess
from email.message import EmailMessage

from runcrate_iac.errors import SpecError
from runcrate_iac.ledger.view import View
from runcrate_iac.model.spec import ClusterSpec

SECONDS = 30
"""How long the mail system may take to accept a message."""


def refuse_unsendable(spec: ClusterSpec) -> None:
    """Raise :class:`SpecError` where an email is wanted and this computer has no mail system."""
    if spec.notify and _sendmail() is None:
        raise SpecError(
            "notify: this computer has no sendmail program, so no email could go out",
            "install one (`apt-get install msmtp-mta`, postfix, …), or leave `notify` out",
        )


def message(view: View) -> EmailMessage:
    """The email for a cluster that became ready."""
    mail = EmailMessage()
    mail["To"] = ", ".join(view.spec.notify)
    mail["Subject"] = f"{view.name} is ready"
    mail.set_content(
        f"The cluster {view.name} ({view.cluster_id}) is {view.state} since {view.since:%Y-%m-%d %H:%M} UTC.\n"
        f"{view.spec.nodes} nodes, software: {view.spec.software}, {view.price_per_hour} per hour.\n\n"
        f"    runcrate-iac ssh {view.name}\n"
        f"    runcrate-iac down {view.name}\n"
    )
    return mail


def send(mail: EmailMessage) -> str:
    """Hand the message to sendmail(8); return why it was not taken, empty where it was."""
    program = _sendmail()
    if program is None:
        return "this computer has no sendmail program"
    try:
        subprocess.run([program, "-t", "-i"], input=mail.as_bytes(), check=True, capture_output=True, timeout=SECONDS)
    except (subprocess.SubprocessError, OSError) as error:
        return str(error)
    return ""


def _sendmail() -> str | None:
    return shutil.which("sendmail") or shutil.which("sendmail", path="/usr/sbin:/usr/lib")
