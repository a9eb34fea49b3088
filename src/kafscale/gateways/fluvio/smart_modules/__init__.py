"""SmartModules: programs of clients that filter and change the records of a stream."""
