import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Agent, get } from 'node:http'
import { createInterface } from 'node:readline'
import t from 'tap'
import { sellerOf } from './helpers/sellerOf.ts'

const AT_ONCE = 64
const WARM_UP = 4_000
const CALLS = 12_000
/** A call makes 11 KB. What is under way at the end of a young generation survives it, and some of V8's own. */
const MOST_BYTES_A_CALL = 90

const gatewayScript = new URL('../bench/servers/gateway.ts', import.meta.url).pathname
/** As `tollgate start` does when it has nothing to do: what is there then is in the old generation. */
const givesBack = `data:text/javascript,
  import { giveBackHeap } from '${new URL('../cli/runtime/giveBackHeap.ts', import.meta.url)}';
  setTimeout(giveBackHeap, 100)`

t.test(
  'what a call has made is dead when it has ended: collections of the young generation find next to nothing',
  async (t) => {
    const body = Buffer.alloc(1_000, 'x')
    // So long that all of them are under way at once.
    const seller = await sellerOf(t, (_req, res) => void setTimeout(() => res.end(body), 10))
    const { port: upstreamPort } = new URL(seller.url)
    const links = [{ slug: 'free', path: '/' }]
    const options = JSON.stringify({ upstreamPort: Number(upstreamPort), folder: t.testdir(), links })
    const flags = ['--max-semi-space-size=16', '--trace-gc', '--import', givesBack]
    const child = spawn(process.execPath, [...flags, gatewayScript, options], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    let port = 0
    let hasGivenBack = false
    /** Of the heap after each scavenge in MB, of one stretch between two collections of the whole heap after the other. */
    const stretches: number[][] = [[]]
    const lines = createInterface({ input: child.stdout })
    lines.on('line', (line) => {
      if (line.startsWith('{')) port = (JSON.parse(line) as { port: number }).port
      else if (line.includes('Mark-Compact')) {
        stretches.push([])
        hasGivenBack ||= line.includes('(reduce)')
      } else if (line.includes('Scavenge'))
        stretches.at(-1)!.push(Number(/Scavenge \S+ \(\S+\) -> (\S+)/.exec(line)?.[1]))
    })
    while (port === 0 || !hasGivenBack) await once(lines, 'line')

    const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })
    t.teardown(() => agent.destroy())
    const call = () =>
      new Promise<void>((resolve, reject) => {
        get({ port, host: '127.0.0.1', path: '/api/link/demo/free', agent }, (answer) => {
          answer.resume().on('end', resolve).on('error', reject)
          if (answer.statusCode !== 200) reject(new Error(`status ${answer.statusCode}`))
        }).on('error', reject)
      })
    const calls = (count: number) =>
      Promise.all(
        Array.from({ length: AT_ONCE }, async () => {
          while (count-- > 0) await call()
        }),
      )
    await calls(WARM_UP)
    stretches.splice(0, stretches.length, [])
    await calls(CALLS)

    const grownMb = stretches.reduce((sum, one) => sum + (one.at(-1) ?? 0) - (one[0] ?? 0), 0)
    t.ok(stretches.flat().length > 5, `${stretches.flat().length} collections of the young generation`)
    const bytes = (grownMb * 1_000_000) / CALLS
    t.ok(bytes < MOST_BYTES_A_CALL, `${bytes.toFixed(0)} bytes of a call survive them`)
  },
)
