#include <isthmus/c/isthmus.h>

int main(void) { return 0; }
