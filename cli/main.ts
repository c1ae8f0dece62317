import { addCredentials } from './credentials.ts'
import { createPipeline } from './program.ts'
import { keepTickShape } from './runtime/heap/tickObjectShape.ts'

keepTickShape()
const program = createPipeline()
try {
  addCredentials(process.env)
} catch (error) {
  program.error((error as Error).message)
}
await program.parseAsync()
