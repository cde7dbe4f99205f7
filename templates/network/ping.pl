# Ping every other node by its name until each has answered a full packet, from one process: a ping(8) for each of the
# pairs is what a large cluster would wait for most. Only what perl-base has.
# A packet begins a handshake where there is none, which the lower number of two nodes has to begin (see mesh): the higher
# waits for it, three seconds at most. One that is lost is begun again after 5 s, so there is another packet every second.
use strict;
use warnings;
use Socket;
$| = 1;
my ($interface, $mtu, $seconds, $own, @peers) = @ARGV; # each peer: NAME=ADDRESS
my @sizes = ($mtu, grep { $_ < $mtu } 8920, 4420, 1420, 1392, 1380, 1340, 1280, 1220, 1200, 1000, 576, 84);
my %address = map { split /=/ } @peers;
my (%name, %to, %largest);
socket my $socket, PF_INET, SOCK_RAW, 1 or die "raw ICMP socket: $!\n"; # IPPROTO_ICMP; not every image has /etc/protocols
setsockopt $socket, 0, 10, pack 'i', 2 or die "IP_MTU_DISCOVER: $!\n"; # never in fragments (ip(7))
setsockopt $socket, 255, 1, pack 'L', 0xffffffff & ~1 or die "ICMP_FILTER: $!\n"; # answers only (icmp(7), raw(7))
for my $peer (keys %address) {
  my $means = inet_aton $peer or next;
  $to{$peer} = pack_sockaddr_in 0, $means;
  $name{$means} = $peer;
}

# send_to PEER, INDEX: a packet of that size, whose number is its index; one that is too large at once is lost as well.
sub send_to {
  my ($peer, $index) = @_;
  my $sum = 0x0800 + ($$ & 0xffff) + $index;
  $sum = ($sum & 0xffff) + ($sum >> 16) for 1, 2;
  send $socket, pack('C2 n3', 8, 0, ~$sum & 0xffff, $$ & 0xffff, $index) . "\0" x ($sizes[$index] - 28), 0, $to{$peer};
}

# hear SECONDS, PEERS: note the answers until that time is over, or all of these have answered a full packet.
sub hear {
  my ($left, $missing) = @_;
  vec(my $readable = '', fileno $socket, 1) = 1;
  while ($left > 0 && %$missing) {
    (my $found, $left) = select my $ready = $readable, undef, undef, $left;
    last if $found <= 0;
    my $from = recv $socket, my $packet, 65536, 0 or next;
    my ($type, $id, $index) = unpack 'C x3 n2', substr $packet, 4 * (ord($packet) & 15);
    my $peer = $name{(unpack_sockaddr_in $from)[1]} or next;
    next if $type != 0 || $id != ($$ & 0xffff) || $index > $#sizes;
    $largest{$peer} = $index if $index < ($largest{$peer} // @sizes);
    print "full $peer\n" if $index == 0 && delete $missing->{$peer};
  }
}

# shaken: when the node last shook hands with the one that has an address; a node may have its pods' addresses, too.
sub shaken {
  my %shaken;
  for (`wg show $interface dump`) {
    my (undef, undef, undef, $allowed, $time) = split /\t/;
    $shaken{$_} = $time for split /,/, $allowed // '';
  }
  return map { $_ => $shaken{"$address{$_}/32"} // 0 } keys %address;
}

my %missing = %to;
my $waited = 0;
for my $pause (0.2, 0.3, 0.5, (1) x ($seconds - 1)) {
  last if !%missing;
  my %shaken = shaken();
  for my $peer (keys %missing) {
    my $lower = inet_aton($address{$peer}) lt inet_aton($own);
    send_to($peer, 0) if !$lower || $shaken{$peer} || $waited >= 3;
  }
  hear($pause, \%missing);
  $waited += $pause;
}
for (1 .. 3) {
  for my $peer (keys %missing) {
    # The full one too: a tunnel that comes back only now would else be taken for a narrow one.
    send_to($peer, $_) for 0 .. $#sizes;
  }
  hear(1, \%missing);
}
delete @address{grep { ($largest{$_} // 1) == 0 } keys %address};
exit if !%address;
my %shaken = shaken();
for my $peer (sort keys %address) {
  print defined $largest{$peer} ? "fits $peer $sizes[$largest{$peer}]\n" : "none $peer $shaken{$peer}\n";
}
