"""Programs that are not traced: ExportedPrograms, and higher-order operators such as `torch.cond`."""
