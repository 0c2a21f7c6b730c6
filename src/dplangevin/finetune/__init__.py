"""Fine-tuning the last block of a public network on private images (ryffel2022, Table 3), against its head alone."""
