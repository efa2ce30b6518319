"""Where do objects go? The few verbs of an object store that the product uses, over S3, in memory, and failing on demand."""
