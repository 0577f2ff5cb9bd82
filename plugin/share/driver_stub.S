// Only its name counts, as what the library needs: NVIDIA's library itself would be needed under its own name.
.section .note.GNU-stack
