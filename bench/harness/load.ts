import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { loadCpu, type Machine, pinned } from './machine.ts'

/** Requests under way at once, each on a keep-alive connection of its own, where a load does not say. */
export const connections = 64

export interface Load {
  readonly path: string
  readonly method?: 'GET' | 'POST'
  /** File with the body of every request. */
  readonly bodyFile?: string
  /** File with one payment a line; each is used once, and the load ends when they are used up. */
  readonly paymentFile?: string
  /** File with one body a line; each is used once, and the load ends when they are used up. */
  readonly bodiesFile?: string
  /** File with one path a line, asked in turn in the place of `path`. */
  readonly pathsFile?: string
  /** Each of these is asked once, and the load ends. */
  readonly isOnce?: true
  readonly headers?: Readonly<Record<string, string>>
  /** The `Host` it names; default: a name of the gateway's own. */
  readonly host?: string
  readonly connections?: number
  /**
   * The load is made by load/generate.ts, which never sleeps: a write to a reader whose CPU is asleep costs the server 20 to
   * 50 µs more on a virtual machine, and a slow server's reader sleeps more often than a fast one's.
   */
  readonly isAwake?: true
}

export interface LoadResult {
  readonly requests: number
  /** Answers with a status of 400 or above. */
  readonly refused: number
  /** The first of these; not known where wrk made the load. */
  readonly firstRefusal?: string
  /** Connections that failed, and answers that did not come. */
  readonly broken: number
  readonly seconds: number
  /** Median time of an answer in milliseconds; not known where wrk made the load. */
  readonly p50Ms?: number
}

/** Asks as fast as the answers come, for so long, from the load's CPU: with wrk, or with load/generate.ts. */
export async function runLoad(
  machine: Machine,
  port: number,
  load: Load,
  seconds: number,
): Promise<LoadResult> {
  const { method = 'GET', path, bodyFile = '-', paymentFile = '-', bodiesFile = '-', pathsFile = '-' } = load
  const {
    host = 'gateway.test',
    headers = {},
    connections: atOnce = connections,
    isAwake = false,
    isOnce = false,
  } = load
  // What is used up, and then must still be answered, wrk can't wait for; headers and few connections it is not asked for.
  const isPlain = paymentFile === '-' && pathsFile === '-' && load.connections === undefined && !isAwake
  const command =
    machine.hasWrk && isPlain
      ? ['wrk', '-t1', `-c${connections}`, `-d${Math.ceil(seconds)}s`, '--timeout', '10s', '-s', luaScript]
          .concat(`http://127.0.0.1:${port}`)
          .concat('--', method, path, bodyFile)
      : [process.execPath, generator].concat(
          JSON.stringify({
            port,
            connections: atOnce,
            seconds,
            method,
            path,
            bodyFile,
            paymentFile,
            bodiesFile,
            pathsFile,
            host,
            headers,
            isAwake,
            isOnce,
          }),
        )
  const [program, ...args] = pinned(machine, loadCpu, command)
  const child = spawn(program!, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.on('data', (chunk) => (output += chunk))
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`The load generator ended with ${code}: ${output}`)
  return JSON.parse(output.trimEnd().split('\n').at(-1)!) as LoadResult
}

const luaScript = new URL('../load/wrk.lua', import.meta.url).pathname
const generator = new URL('../load/generate.ts', import.meta.url).pathname
