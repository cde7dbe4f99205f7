/* An MPI program: every rank says who it is, and rank 0 how many took part.
 *
 *   mpicc -o /shared/mpi_hello mpi_hello.c
 *   srun --nodes=2 --ntasks-per-node=1 /shared/mpi_hello        as a job: Slurm chooses the nodes
 *   mpirun --hostfile /shared/hostfile /shared/mpi_hello        without Slurm: a rank for each GPU of the cluster
 */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  int rank, size, one = 1, sum, length;
  char name[MPI_MAX_PROCESSOR_NAME];

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Get_processor_name(name, &length);
  printf("rank %d of %d on %s\n", rank, size, name);

  /* Ends only when all ranks have met over the network. */
  MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks took part\n", sum);
  MPI_Finalize();
  return 0;
}
