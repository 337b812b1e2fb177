"""The tasks: each module adds its entries to `relexify.evaluation.registry.TASKS`."""
