import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Writable } from 'node:stream'
import t, { type Test } from 'tap'
import { createEvmBuyer } from '../../adapters/chains/buyer/evmBuyer.ts'
import { exitCodes } from './exitCodes.ts'
import { type PayFlags, runPay } from './runPay.ts'
import { startEvmWorld } from './testing/evmWorld.ts'
import { json, startFakeVault } from './testing/fakeVault.ts'
import { type Answer, offer, type Received, type Seller, startSeller } from './testing/seller.ts'
import { type SolanaWorld, startSolanaWorld } from './testing/solanaWorld.ts'

const world = await startEvmWorld(t)
const script = `
  import { Command } from 'commander'
  import { registerPay } from ${JSON.stringify(new URL('./command.ts', import.meta.url).href)}
  const program = new Command('tollgate')
  registerPay(program)
  await program.parseAsync()`

interface Shop {
  readonly home: string
  readonly seller: Seller
  /** What the seller does with a payment. */
  mood: 'honest' | 'broken' | 'silent' | 'refuses'
  /** Payments that the seller got, each counted once. */
  payments(): Set<string>
  files(): string[]
}

/** A seller whose mood changes, and a home for the buyer. A payment that was settled gets its answer again. */
async function openShop(
  t: Test,
  parts: Pick<SolanaWorld, 'offerFor' | 'settle' | 'receiptOf'> = world,
): Promise<Shop> {
  const home = mkdtempSync(join(tmpdir(), 'tollgate-repeat-'))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  const settled = new Map<string, Promise<string>>()
  // One after the other: it has one key, and its nonces are a row.
  let last: Promise<unknown> = Promise.resolve()
  const answer: Answer = async (request, response, { url }) => {
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
  const seller = await startSeller(answer)
  t.teardown(() => seller.close())
  const shop: Shop = {
    home,
    seller,
    mood: 'honest',
    payments: () => new Set(seller.paid().map(headerOf)),
    files: () => readdirSync(join(home, 'payments')).filter((name) => name.endsWith('.json')),
  }
  return shop
}

const headerOf = ({ headers }: Received): string => String(headers['payment-signature'])

interface Run {
  readonly code: number
  // biome-ignore lint/suspicious/noExplicitAny: tests look into reports of every shape
  readonly report: any
  readonly stderr: string
}

async function pay(
  shop: Shop,
  flags: PayFlags = {},
  env: object = { TOLLGATE_EVM_KEY: world.privateKey },
  stdout: Writable = new PassThrough(),
): Promise<Run> {
  const [stdin, stderr] = [new PassThrough(), new PassThrough()]
  let [out, errors] = ['', '']
  stdout.on('data', (chunk) => (out += chunk))
  stderr.on('data', (chunk) => (errors += chunk))
  const target = flags.resume === undefined ? shop.seller.url : undefined
  const all = { rpc: world.chain.rpcUrl, timeout: '3', ...flags }
  const code = await runPay(target, all, { stdin, stdout, stderr, env: { TOLLGATE_HOME: shop.home, ...env } })
  return { code, report: out && JSON.parse(out), stderr: errors }
}

const spent = async (work: () => Promise<void>): Promise<bigint> => {
  const before = await world.chain.balanceUsdc(world.buyer)
  await work()
  return before - (await world.chain.balanceUsdc(world.buyer))
}

t.test('run again after an unknown outcome, the same payment is sent, and paid once', async (t) => {
  const shop = await openShop(t)
  const cost = await spent(async () => {
    shop.mood = 'broken'
    t.match(await pay(shop), { code: exitCodes.unknown, report: { message: /--again pays anew/ } })
    t.match(await pay(shop), { code: exitCodes.unknown, stderr: /Sending the payment of .* again/ })
    shop.mood = 'honest'
    // It needs no key for what is signed already.
    const third = await pay(shop, {}, {})
    t.match(third, {
      code: 0,
      report: { outcome: 'paid', isVerified: true, answer: { body: { data: 'bought' } } },
    })
    t.strictSame(shop.files(), [])
  })
  t.equal(cost, 10_000n)
  t.equal(shop.payments().size, 1)
  t.match(await pay(shop), { code: 0 }, 'the next run buys another call')
  t.equal(shop.payments().size, 2)
})

t.test('a payment is forgotten when its answer was written, and not before', async (t) => {
  const shop = await openShop(t)
  const full = new Writable({
    write: (_chunk, _encoding, done) => done(Object.assign(new Error('full'), { code: 'ENOSPC' })),
  })
  const first = await pay(shop, {}, undefined, full)
  t.match(first, { code: exitCodes.internal, stderr: /could not be written \(ENOSPC\).*The same command/ })
  t.equal(shop.files().length, 1)
  const kept: number[] = []
  const slow = new Writable({
    write(_chunk, _encoding, done) {
      kept.push(shop.files().length)
      done()
    },
  })
  t.match(await pay(shop, {}, undefined, slow), { code: 0 })
  t.strictSame(kept, [1], 'a run that is killed while it writes can be repeated')
  t.equal(shop.payments().size, 1, 'the lost answer was not bought again')
  t.strictSame(shop.files(), [])
})

t.test(
  'a payment that was refused so far is not followed by another one, until --again says so',
  async (t) => {
    const shop = await openShop(t)
    shop.mood = 'refuses'
    t.match(await pay(shop), { code: exitCodes.rejected, report: { charged: 'not_yet' } })
    t.match(await pay(shop), { code: exitCodes.rejected, report: { message: /--again pays anew/ } })
    t.equal(shop.payments().size, 1)
    shop.mood = 'honest'
    t.match(await pay(shop, { again: true }), { code: 0, report: { outcome: 'paid' } })
    t.equal(shop.payments().size, 2)
    t.equal(shop.files().length, 1, 'the open payment stays')
  },
)

t.test('another method, address or body is another purchase; other options are not', async (t) => {
  const shop = await openShop(t)
  shop.mood = 'broken'
  await pay(shop, { body: '{"a":1}' })
  await pay(shop, { body: '{"a":1}', max: '0.50', header: ['X-Trace: 2'] })
  t.equal(shop.payments().size, 1)
  shop.mood = 'honest'
  for (const flags of [{}, { body: '{"a":2}' }, { body: '{"a":1}', method: 'PUT' }])
    t.match(await pay(shop, flags), { code: 0 })
  t.equal(shop.payments().size, 4)
  t.match(await pay(shop, { body: '{"a":1}' }), { code: 0 })
  t.equal(shop.payments().size, 4)
})

t.test('what was settled meanwhile is answered, though nothing is offered any more', async (t) => {
  const shop = await openShop(t)
  shop.mood = 'broken'
  await pay(shop)
  await world.settle(shop.seller.paid()[0]!)
  await shop.seller.close()
  const { code, report } = await pay(shop)
  t.match(
    { code, report },
    { code: exitCodes.badAnswer, report: { charged: 'yes', message: /You were charged/ } },
  )
  t.match(report.stateFile, /\.json$/)
})

t.test('a payment whose time is over, and which the chain does not have, frees the way', async (t) => {
  const clock = await startEvmWorld(t)
  const shop = await openShop(t, clock)
  const flags = { rpc: clock.chain.rpcUrl }
  const env = { TOLLGATE_EVM_KEY: clock.privateKey }
  shop.mood = 'refuses'
  t.match(await pay(shop, flags, env), { code: exitCodes.rejected })
  const rpc = (method: string, ...params: unknown[]) =>
    fetch(clock.chain.rpcUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
  await rpc('evm_increaseTime', 301)
  await rpc('evm_mine')
  const before = shop.payments().size
  const second = await pay(shop, flags, env)
  t.equal(shop.payments().size, before + 1, 'the way was free')
  t.match(second, { code: exitCodes.rejected })
})

t.test('two runs at the same time sign one payment; with --again both pay', async (t) => {
  const shop = await openShop(t)
  const runs = await Promise.all([pay(shop), pay(shop), pay(shop)])
  t.strictSame(
    runs.map(({ code }) => code).sort((a, b) => a - b),
    [0, exitCodes.underWay, exitCodes.underWay],
  )
  t.match(runs.find(({ code }) => code === 15)?.report, {
    outcome: 'under_way',
    charged: 'no',
    payment: null,
  })
  t.equal(shop.payments().size, 1)
  const both = await Promise.all([pay(shop, { again: true }), pay(shop, { again: true })])
  t.strictSame(
    both.map(({ code }) => code),
    [0, 0],
  )
  t.equal(shop.payments().size, 3)
})

t.test(
  'a run that was killed between signature and answer is gone on with, and two processes pay once',
  async (t) => {
    const shop = await openShop(t)
    const env = { ...process.env, TOLLGATE_EVM_KEY: world.privateKey, TOLLGATE_HOME: shop.home }
    const args = [
      '--input-type=module',
      '-e',
      script,
      '--',
      'pay',
      shop.seller.url,
      '--rpc',
      world.chain.rpcUrl,
    ]
    const start = (): ChildProcess =>
      spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
    shop.mood = 'silent'
    const first = start()
    await lineOf(first, /Signed\. Kept in/)
    const rival = await new Promise<number>((resolve) => {
      execFile(process.execPath, args, { env }, (error) => resolve(Number(error?.code ?? 0)))
    })
    t.equal(rival, exitCodes.underWay)
    first.kill('SIGKILL')
    await once(first, 'exit')
    t.equal(shop.files().length, 1)
    t.equal(statSync(join(shop.home, 'payments', shop.files()[0]!)).mode & 0o777, 0o600)
    shop.mood = 'honest'
    const cost = await spent(async () => {
      t.match(await pay(shop), { code: 0, report: { outcome: 'paid' } })
    })
    t.equal(cost, 10_000n)
    t.equal(shop.payments().size, 1, 'one payment was ever sent')
  },
)

t.test(
  'a kept payment that is damaged or open to others stops the command and says what to do',
  async (t) => {
    const shop = await openShop(t)
    shop.mood = 'broken'
    await pay(shop)
    const file = join(shop.home, 'payments', shop.files()[0]!)
    const calls = shop.seller.received.length
    chmodSync(file, 0o644)
    t.match(await pay(shop), { code: exitCodes.usage, report: { message: /chmod 600 it first.*--again/ } })
    writeFileSync(file, '{"tollgatePayment":1}')
    chmodSync(file, 0o600)
    t.match(await pay(shop), { code: exitCodes.usage, report: { message: /damaged.*--again/ } })
    t.equal(shop.seller.received.length, calls, 'nobody was asked')
    writeFileSync(join(shop.home, 'payments', 'notes.json'), 'not ours')
    shop.mood = 'honest'
    t.match(await pay(shop, { again: true }), { code: 0 })
  },
)

t.test('on Solana too', async (t) => {
  const solana = await startSolanaWorld(t)
  const shop = await openShop(t, solana)
  const flags = { rpc: solana.chain.rpcUrl }
  const env = { TOLLGATE_SOLANA_KEY: JSON.stringify([...solana.secret]) }
  shop.mood = 'broken'
  t.match(await pay(shop, flags, env), { code: exitCodes.unknown })
  shop.mood = 'honest'
  t.match(await pay(shop, flags, env), { code: 0, report: { outcome: 'paid', isVerified: true } })
  t.equal(shop.payments().size, 1)
})

t.test(
  'a vault is not asked for a second payment: neither by a run that finds one, nor by one that was killed',
  async (t) => {
    const shop = await openShop(t)
    let answers = false
    const signed = new Map<string, Promise<string>>()
    const ordered = Promise.withResolvers<void>()
    const vault = await startFakeVault(t, {
      wallet: () => createEvmBuyer({ privateKey: world.privateKey, rpcUrl: world.chain.rpcUrl }),
      chains: ['base-sepolia'],
      order: async (order, response) => {
        const key = String(order.headers['idempotency-key'])
        if (!signed.has(key)) signed.set(key, order.sign())
        ordered.resolve()
        // At first it signs, and the answer is lost.
        if (answers) json(response, 200, { payment_header: await signed.get(key) })
      },
    })
    const env = { ...process.env, TOLLGATE_HOME: shop.home }
    const args = ['--vault', vault.url, '--rpc', world.chain.rpcUrl]
    const killed = spawn(
      process.execPath,
      ['--input-type=module', '-e', script, '--', 'pay', shop.seller.url, ...args],
      {
        env,
        stdio: 'ignore',
      },
    )
    await ordered.promise
    killed.kill('SIGKILL')
    await once(killed, 'exit')

    answers = true
    shop.mood = 'broken'
    t.match(await pay(shop, { vault: vault.url }, {}), { code: exitCodes.unknown })
    t.equal(signed.size, 1, 'the order of the killed run was asked for again')
    await vault.stop()
    shop.mood = 'honest'
    t.match(
      await pay(shop, { vault: vault.url }, {}),
      { code: 0, report: { outcome: 'paid' } },
      'without the vault',
    )
    await vault.start()
    t.match(await pay(shop, { vault: vault.url }, {}), { code: 0 })
    t.equal(signed.size, 2, 'the next purchase is another order')
    t.equal(shop.payments().size, 2)
  },
)

async function lineOf(child: ChildProcess, wanted: RegExp): Promise<void> {
  let text = ''
  for await (const chunk of child.stderr!) if (wanted.test((text += String(chunk)))) return
  throw new Error(`Expected ${wanted}, got ${text}`)
}
