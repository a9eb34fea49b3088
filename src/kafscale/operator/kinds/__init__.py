"""Resources: those that the operator defines, and what it reads of others."""
