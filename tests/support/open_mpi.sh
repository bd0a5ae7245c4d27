# open_mpi_version MPIRUN: prints the first number of Open MPI's version (4, 5), and nothing for another MPI. Ubuntu 26.04's
# mpirun cannot print its version: a file is missing, and only Open MPI from 5 on has one of that name.
open_mpi_version() {
  local text
  text=$("$1" --version 2>&1)
  case $text in
  *help-schizo-ompi*) echo 5 ;;
  *) sed -nE '0,/(Open MPI|OpenRTE)/s/.*\((Open MPI|OpenRTE)\) ([0-9]+).*/\2/p' <<<"$text" ;;
  esac
}
