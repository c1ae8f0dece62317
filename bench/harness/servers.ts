import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { type GatewayOptions, startGateway } from './gateway.ts'
import { cpuSeconds, loadCpu, type Machine, pinned, serverCpu } from './machine.ts'

/** Gateways and vaults run as cli/bin.js starts them: what is measured is what is shipped. */
const ours: readonly string[] = ['gateway.ts', 'vault.ts']
const ourFlags = ['--max-semi-space-size=16']
const ourEnv = { MALLOC_ARENA_MAX: '2' }

/** A server in a process of its own. */
export interface Server {
  readonly port: number
  /** CPU time so far, in seconds, with that of its own children. */
  cpu(): number
  stop(): Promise<void>
}

/** A server of `servers/`. */
export interface Started extends Server {
  /** What it said when it was ready, beside its port. */
  readonly facts: Readonly<Record<string, unknown>>
}

/** Starts the servers of a bench, and stops all of them when the bench is over. */
export class Servers {
  readonly #machine: Machine
  readonly #running: Server[] = []
  readonly #folders: string[] = []

  constructor(machine: Machine) {
    this.#machine = machine
  }

  /**
   * Starts `servers/<file>` on the server's CPU. The script gets its options as JSON in its first argument and prints
   * `{"port":…}` when it listens.
   */
  start(file: string, options: object = {}): Promise<Started> {
    return this.#spawn(file, options, serverCpu)
  }

  /** `tollgate start` on the server's CPU, see {@link startGateway}. Without a node's port, it gets a node without activity. */
  async gateway(options: Omit<GatewayOptions, 'rpcPort'> & { readonly rpcPort?: number }): Promise<Server> {
    const rpcPort = options.rpcPort ?? (await this.start('chainNode.ts')).port
    const pin = (command: readonly string[]) => pinned(this.#machine, serverCpu, command)
    const gateway = await startGateway({ ...options, rpcPort }, this.folder(), await freePort(), pin)
    this.#running.push(gateway)
    return gateway
  }

  /** Runs `servers/<file>` to its end on the server's CPU and returns the JSON that it prints. */
  async job<Result>(file: string, options: object, where: 'pinned' | 'unpinned' = 'pinned'): Promise<Result> {
    const script = new URL(`../servers/${file}`, import.meta.url).pathname
    const child = this.#run(
      [process.execPath, script, JSON.stringify(options)],
      where === 'pinned' ? serverCpu : null,
    )
    let output = ''
    child.stdout!.on('data', (chunk) => (output += chunk))
    const [code] = await once(child, 'close')
    if (code !== 0) throw new Error(`bench/servers/${file} ended with ${code}; its own message stands above.`)
    return JSON.parse(output) as Result
  }

  /** The sample seller: responds to `/1k`, `/100k` and any POST with fixed bytes, on the load's CPU. */
  upstream(at: object = {}): Promise<Server> {
    return this.#spawn('upstream.ts', at, loadCpu)
  }

  /** nginx with one process, as a proxy before the upstream. Null when it is not installed. */
  async nginx(upstreamPort: number): Promise<Server | null> {
    const { nginx } = this.#machine
    if (nginx === null) return null
    const folder = this.folder()
    const port = await freePort()
    const config = readFileSync(new URL('../servers/nginx.conf', import.meta.url), 'utf8')
      .replaceAll('@PORT@', String(port))
      .replaceAll('@UPSTREAM@', String(upstreamPort))
      .replaceAll('@FOLDER@', folder)
    writeFileSync(join(folder, 'nginx.conf'), config)
    const command = [nginx, '-p', folder, '-c', join(folder, 'nginx.conf'), '-e', join(folder, 'error.log')]
    const child = this.#run(command, serverCpu)
    const server = serverOf(child, port)
    this.#running.push(server)
    await listening(port)
    return server
  }

  /** A port that is free now. */
  freePort(): Promise<number> {
    return freePort()
  }

  /** An empty folder that goes with the servers. */
  folder(): string {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
    this.#folders.push(folder)
    return folder
  }

  async stop(): Promise<void> {
    for (const server of this.#running.splice(0)) await server.stop()
    for (const folder of this.#folders.splice(0)) rmSync(folder, { recursive: true, force: true })
  }

  async #spawn(file: string, options: object, cpu: number): Promise<Started> {
    const script = new URL(`../servers/${file}`, import.meta.url).pathname
    const isOurs = ours.includes(file)
    const flags = isOurs ? ourFlags : []
    const command = [process.execPath, ...flags, script, JSON.stringify(options)]
    const child = this.#run(command, cpu, isOurs ? ourEnv : {})
    const { port, ...facts } = JSON.parse(await firstLine(child, file)) as { port: number }
    const server = { ...serverOf(child, port), facts }
    this.#running.push(server)
    return server
  }

  /** @param cpu null: wherever there is room */
  #run(command: readonly string[], cpu: number | null, env: NodeJS.ProcessEnv = {}): ChildProcess {
    const [program, ...args] = cpu === null ? command : pinned(this.#machine, cpu, command)
    return spawn(program!, args, { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, ...env } })
  }
}

function serverOf(child: ChildProcess, port: number): Server {
  return {
    port,
    cpu: () => cpuSeconds(child.pid!),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      const cut = setTimeout(() => child.kill('SIGKILL'), 3_000)
      await ended
      clearTimeout(cut)
    },
  }
}

async function firstLine(child: ChildProcess, file: string): Promise<string> {
  const lines = createInterface({ input: child.stdout! })
  const ended = once(child, 'exit').then(() => {
    throw new Error(`bench/servers/${file} ended before it listened; its own message stands above.`)
  })
  const [line] = (await Promise.race([once(lines, 'line'), ended])) as [string]
  ended.catch(() => undefined)
  return line
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}

async function listening(port: number): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    const answered = await fetch(`http://127.0.0.1:${port}/1k`).then(
      () => true,
      () => false,
    )
    if (answered) return
    await sleep(20)
  }
  throw new Error(`Nothing listens on port ${port} after 2 s.`)
}
