import { createProgram } from './program.ts'
import { keepTickShape } from './runtime/heap/keepTickShape.ts'

keepTickShape()
await createProgram().parseAsync()
