import { addCredentials } from './credentials.ts'
import { createProgram } from './program.ts'
import { keepTickShape } from './runtime/heap/keepTickShape.ts'

keepTickShape()
const program = createProgram()
try {
  addCredentials(process.env)
} catch (error) {
  program.error((error as Error).message)
}
await program.parseAsync()
