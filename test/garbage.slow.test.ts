import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent, get } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { price } from '../bench/servers/offer.ts'
import { sellerOf } from './helpers/sellerOf.ts'

const AT_ONCE = 64
const WARM_UP = 3_000
/** A paid call makes seven times as much. */
const CALLS = { free: 12_000, paid: 6_000, unpaid: 24_000 } as const
/**
 * Of 11, 75 and 9 KB. What is under way when a young generation is full survives it: of paid calls, which are longer, a part of
 * each.
 */
const MAX_BYTES_A_CALL = { free: 90, paid: 3_000, unpaid: 90 } as const
/** Each with a price of its own, so that no two of them say the same of how they can be paid. */
const PRICED = 1_500

const script = (name: string) => new URL(`../bench/servers/${name}`, import.meta.url).pathname
/** As `tollgate start` does when it has nothing to do: what is there then is in the old generation. */
const givesBack = `data:text/javascript,
  import { releaseHeap } from '${new URL('../cli/runtime/heap/releaseHeap.ts', import.meta.url)}';
  setTimeout(releaseHeap, 100)`

t.test(
  'what a call has made is dead when it has ended: collections of the young generation find next to nothing',
  async (t) => {
    const body = Buffer.alloc(1_000, 'x')
    // So long that all of them are under way at once.
    const seller = await sellerOf(t, (_req, res) => void setTimeout(() => res.end(body), 10))
    const { port: upstreamPort } = new URL(seller.url)
    const links = [
      { slug: 'free', path: '/' },
      { slug: 'paid', path: '/', price },
      ...Array.from({ length: PRICED }, (_, i) => ({ slug: `p${i}`, path: '/', price: `1.${1_000 + i}` })),
    ]
    const options = JSON.stringify({ upstreamPort: Number(upstreamPort), folder: t.testdir(), links })
    const flags = ['--max-semi-space-size=16', '--trace-gc', '--import', givesBack]
    const child = spawn(process.execPath, [...flags, script('gateway.ts'), options], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    let port = 0
    let hasGivenBack = false
    /** Of the heap after each scavenge in MB, of one stretch between two collections of the whole heap after the other. */
    const stretches: number[][] = [[]]
    const lines = createInterface({ input: child.stdout })
    let mainThread: string | undefined
    lines.on('line', (line) => {
      if (line.startsWith('{')) port = (JSON.parse(line) as { port: number }).port
      const [, thread, what, leftMb] =
        /^\[\d+:(\w+)\].* (Scavenge|Mark-Compact) (?:\(\w+\) )?\S+ \(\S+\) -> (\S+)/.exec(line) ?? []
      if (thread === undefined || thread !== (mainThread ??= thread)) return
      if (what === 'Scavenge') return void stretches.at(-1)!.push(Number(leftMb))
      stretches.push([])
      hasGivenBack ||= line.includes('(reduce)')
    })
    while (port === 0 || !hasGivenBack) await once(lines, 'line')

    const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })
    t.teardown(() => agent.destroy())
    const call = (slug: string, payment: string) =>
      new Promise<void>((resolve, reject) => {
        const headers = payment === '' ? {} : { 'payment-signature': payment }
        get({ port, host: '127.0.0.1', path: `/api/link/demo/${slug}`, agent, headers }, (response) => {
          response.resume().on('end', resolve).on('error', reject)
          if (response.statusCode !== (slug === 'free' || slug === 'paid' ? 200 : 402))
            reject(new Error(`status ${response.statusCode}`))
        }).on('error', reject)
      })

    for (const kind of ['free', 'paid', 'unpaid'] as const) {
      const count = CALLS[kind]
      const slugOf = (n: number) => (kind === 'unpaid' ? `p${n % PRICED}` : kind)
      const file = join(t.testdirName, 'payments')
      execFileSync(process.execPath, [
        script('signPayments.ts'),
        JSON.stringify({ files: [{ file, count: kind === 'paid' ? WARM_UP + count : 0 }] }),
      ])
      const payments = readFileSync(file, 'utf8').trimEnd().split('\n')
      const calls = (left: number) =>
        Promise.all(
          Array.from({ length: AT_ONCE }, async () => {
            while (left-- > 0) await call(slugOf(left), payments.pop() ?? '')
          }),
        )
      await calls(WARM_UP)
      stretches.splice(0, stretches.length, [])
      await calls(count)

      const grownMb = stretches.reduce((sum, one) => sum + (one.at(-1) ?? 0) - (one[0] ?? 0), 0)
      t.ok(stretches.flat().length > 5, `${stretches.flat().length} collections of the young generation`)
      const bytes = (grownMb * 1_000_000) / count
      t.ok(bytes < MAX_BYTES_A_CALL[kind], `${bytes.toFixed(0)} bytes of a ${kind} call survive them`)
    }
  },
)
