/* libisthmus, as it is linked and found at run time: of the ABI that its header says. */
#include <isthmus/c/isthmus.h>

int main(void) { return isthmus_abi_version() == ISTHMUS_C_ABI_VERSION ? 0 : 1; }
