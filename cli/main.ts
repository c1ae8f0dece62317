import { createProgram } from './program.ts'
import { keepTickShape } from './runtime/keepTickShape.ts'

keepTickShape()
await createProgram().parseAsync()
