// Starts `tollgate start` in a folder of its own, waits until its port answers, then until it is idle, and prints
// {startMs, idleMb}.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const { folder, program } = JSON.parse(process.argv[2]!) as { folder: string; program: string }
const idleMs = 2_000
const [port, adminPort, deadPort] = await Promise.all([freePort(), freePort(), freePort()])
const file = join(folder, 'tollgate.yaml')
writeFileSync(
  file,
  JSON.stringify({
    publicUrl: `http://127.0.0.1:${port}`,
    gateway: { port },
    admin: { port: adminPort },
    storage: { path: './tollgate.db' },
    secretFile: './secret',
    networks: {
      'eip155:84532': {
        rpcUrls: [`http://127.0.0.1:${deadPort}`],
        facilitator: { privateKey: '${BENCH_KEY}' },
      },
    },
    plugins: ['rate-limit', 'health', 'x402', 'replay-guard', 'upstream', 'purchase-record', 'metrics'].map(
      (use) => ({ use }),
    ),
    log: { level: 'error' },
  }),
)

const startedMs = performance.now()
const child = spawn(process.execPath, [program, 'start', '--config', file], {
  stdio: ['ignore', 'ignore', 'inherit'],
  env: { ...process.env, BENCH_KEY: `0x${randomBytes(32).toString('hex')}` },
})
const ended = once(child, 'exit')
while (!(await respond(port))) {
  if (child.exitCode !== null) throw new Error('tollgate start ended by itself; it says why above.')
  await sleep(5)
}
const startMs = performance.now() - startedMs
await sleep(idleMs)
const rss = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))!
child.kill('SIGKILL')
await ended
console.log(JSON.stringify({ startMs, idleMb: Number(rss[1]) / 1024 }))

function respond(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}
