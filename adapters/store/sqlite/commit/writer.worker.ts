import { parentPort, workerData } from 'node:worker_threads'
import { WriterLoop } from './groupCommit.ts'
import type { WriterOptions } from './writer.ts'

new WriterLoop(parentPort!, workerData as WriterOptions)
