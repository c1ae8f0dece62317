import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, type Writable } from 'node:stream'
import type { Test } from 'tap'
import { type PayFlags, runPay } from '../../../../cli/pay/runPay.ts'
import { type Answer, offer, type Received, type Seller, startSeller } from '../../buyer/seller.ts'
import type { SolanaWorld } from '../../buyer/solanaWorld.ts'

export interface Shop {
  readonly home: string
  readonly seller: Seller
  /** What the seller does with a payment. */
  mood: 'honest' | 'broken' | 'silent' | 'refuses'
  /** Payments that the seller got, each counted once. */
  payments(): Set<string>
  files(): string[]
  /** Runs the command at the seller's address. */
  pay(flags?: PayFlags, env?: object, stdout?: Writable): Promise<Run>
}

/** What a chain has to do with it. */
export interface ShopDeps extends Pick<SolanaWorld, 'offerFor' | 'settle' | 'receiptOf'> {
  readonly rpcUrl: string
  /** Holds the buyer's key. */
  readonly env: object
}

/**
 * How long a run waits for what will not come: a seller's better answer, and the chain after there was none; a refusal is
 * looked at for longer, because its outcome depends on what the chain says.
 */
const paces = {
  broken: { retryDelaysMs: [], chainWaitMs: 50 },
  refuses: { chainWaitMs: 1_000 },
  honest: { retryDelaysMs: [10] },
  silent: {},
} as const

/** A seller whose mood changes, and a home for the buyer. A payment that was settled gets its answer again. */
export async function openShop(t: Test, parts: ShopDeps): Promise<Shop> {
  const home = mkdtempSync(join(tmpdir(), 'tollgate-repeat-'))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  const settled = new Map<string, Promise<string>>()
  // One after the other: it has one key, and its nonces are a row.
  let last: Promise<unknown> = Promise.resolve()
  const respond: Answer = async (request, response, { url }) => {
    if (request.payment === null) return offer(response, parts.offerFor(url))
    if (shop.mood === 'broken') return response.socket!.destroy()
    if (shop.mood === 'silent') return
    if (shop.mood === 'refuses') return offer(response, parts.offerFor(url))
    const header = headerOf(request)
    if (!settled.has(header)) {
      const next = last.then(() => parts.settle(request))
      last = next
      settled.set(header, next)
    }
    const receipt = parts.receiptOf(await settled.get(header)!)
    response.writeHead(200, {
      'payment-response': Buffer.from(JSON.stringify(receipt)).toString('base64'),
      'content-type': 'application/json',
    })
    response.end('{"data":"bought"}')
  }
  const seller = await startSeller(respond)
  t.teardown(() => seller.close())
  const shop: Shop = {
    home,
    seller,
    mood: 'honest',
    payments: () => new Set(seller.paid().map(headerOf)),
    files: () => readdirSync(join(home, 'payments')).filter((name) => name.endsWith('.json')),
    pay: (flags, env = parts.env, stdout = new PassThrough()) => run(shop, parts.rpcUrl, flags, env, stdout),
  }
  return shop
}

const headerOf = ({ headers }: Received): string => String(headers['payment-signature'])

export interface Run {
  readonly code: number
  // biome-ignore lint/suspicious/noExplicitAny: tests look into reports of every shape
  readonly report: any
  readonly stderr: string
}

async function run(
  { home, seller, mood }: Shop,
  rpc: string,
  flags: PayFlags = {},
  ownEnv: object,
  stdout: Writable,
): Promise<Run> {
  const [stdin, stderr] = [new PassThrough(), new PassThrough()]
  let [out, errors] = ['', '']
  stdout.on('data', (chunk) => (out += chunk))
  stderr.on('data', (chunk) => (errors += chunk))
  const target = flags.resume === undefined ? seller.url : undefined
  const env = { TOLLGATE_HOME: home, ...ownEnv }
  const io = { stdin, stdout, stderr, env, pace: paces[mood] }
  const code = await runPay(target, { rpc, timeout: '10', ...flags }, io)
  return { code, report: out && JSON.parse(out), stderr: errors }
}
