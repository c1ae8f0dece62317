import { workerData } from 'node:worker_threads'
import { connectReader } from './connect.ts'

const { path, toFile } = workerData as { path: string; toFile: string }
const database = connectReader(path)
database.prepare('VACUUM INTO ?').run(toFile)
database.close()
