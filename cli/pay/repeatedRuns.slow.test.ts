import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import t from 'tap'
import { createEvmBuyer } from '../../buyer/chains/evmBuyer.ts'
import { startEvmWorld } from '../../test/helpers/buyer/evmWorld.ts'
import { json, startFakeVault } from '../../test/helpers/buyer/fakeVault.ts'
import { startSolanaWorld } from '../../test/helpers/buyer/solanaWorld.ts'
import { openShop } from '../../test/helpers/cli/pay/shop.ts'
import { exitCodes } from './exitCodes.ts'

const world = await startEvmWorld(t)
const parts = {
  ...world,
  rpcUrl: world.chain.rpcUrl,
  env: { TOLLGATE_EVM_KEY: world.privateKey },
}
const script = `
  import { Command } from 'commander'
  import { registerPay } from ${JSON.stringify(new URL('./command.ts', import.meta.url).href)}
  const program = new Command('tollgate')
  registerPay(program)
  await program.parseAsync()`

const spent = async (work: () => Promise<void>): Promise<bigint> => {
  const before = await world.chain.balanceUsdc(world.buyer)
  await work()
  return before - (await world.chain.balanceUsdc(world.buyer))
}

t.test('run again after an unknown outcome, the same payment is sent, and paid once', async (t) => {
  const shop = await openShop(t, parts)
  const cost = await spent(async () => {
    shop.mood = 'broken'
    t.match(await shop.pay(), { code: exitCodes.unknown, report: { message: /--again makes a new payment/ } })
    t.match(await shop.pay(), { code: exitCodes.unknown, stderr: /Sending the payment of .* again/ })
    shop.mood = 'honest'
    // A payment that is already signed needs no key.
    const third = await shop.pay({}, {})
    t.match(third, {
      code: 0,
      report: { outcome: 'paid', isVerified: true, response: { body: { data: 'bought' } } },
    })
    t.strictSame(shop.files(), [])
  })
  t.equal(cost, 10_000n)
  t.equal(shop.payments().size, 1)
  t.match(await shop.pay(), { code: 0 }, 'the next run buys another call')
  t.equal(shop.payments().size, 2)
})

t.test('a payment is forgotten when its answer was written, and not before', async (t) => {
  const shop = await openShop(t, parts)
  const full = new Writable({
    write: (_chunk, _encoding, done) => done(Object.assign(new Error('full'), { code: 'ENOSPC' })),
  })
  const first = await shop.pay({}, undefined, full)
  t.match(first, {
    code: exitCodes.internal,
    stderr: /could not be written \(ENOSPC\).*Run the same command again soon to request the response/,
  })
  t.equal(shop.files().length, 1)
  const kept: number[] = []
  const slow = new Writable({
    write(_chunk, _encoding, done) {
      kept.push(shop.files().length)
      done()
    },
  })
  t.match(await shop.pay({}, undefined, slow), { code: 0 })
  t.strictSame(kept, [1], 'a run that is killed while it writes can be repeated')
  t.equal(shop.payments().size, 1, 'the lost answer was not bought again')
  t.strictSame(shop.files(), [])
})

t.test(
  'a payment that was refused so far is not followed by another one, until --again says so',
  async (t) => {
    const shop = await openShop(t, parts)
    shop.mood = 'refuses'
    t.match(await shop.pay(), { code: exitCodes.rejected, report: { charged: 'not_yet' } })
    t.match(await shop.pay(), {
      code: exitCodes.rejected,
      report: { message: /--again makes a new payment/ },
    })
    t.equal(shop.payments().size, 1)
    shop.mood = 'honest'
    t.match(await shop.pay({ again: true }), { code: 0, report: { outcome: 'paid' } })
    t.equal(shop.payments().size, 2)
    t.equal(shop.files().length, 1, 'the open payment stays')
  },
)

t.test('another method, address or body is another purchase; other options are not', async (t) => {
  const shop = await openShop(t, parts)
  shop.mood = 'broken'
  await shop.pay({ body: '{"a":1}' })
  await shop.pay({ body: '{"a":1}', max: '0.50', header: ['X-Trace: 2'] })
  t.equal(shop.payments().size, 1)
  const same = await shop.pay({ body: '{"a":1}', max: '0.60' })
  t.strictSame(same.report.warnings, [])
  const other = await shop.pay({ body: '{"a":1}', header: ['Authorization: Bearer 2'] })
  t.match(other.report.warnings, [/its own headers, which differ from those of this command\. --again/])
  t.equal(shop.payments().size, 1)
  shop.mood = 'honest'
  for (const flags of [{}, { body: '{"a":2}' }, { body: '{"a":1}', method: 'PUT' }])
    t.match(await shop.pay(flags), { code: 0 })
  t.equal(shop.payments().size, 4)
  t.match(await shop.pay({ body: '{"a":1}' }), { code: 0 })
  t.equal(shop.payments().size, 4)
})

t.test('what was settled meanwhile is answered, though nothing is offered any more', async (t) => {
  const shop = await openShop(t, parts)
  shop.mood = 'broken'
  await shop.pay()
  await world.settle(shop.seller.paid()[0]!)
  await shop.seller.close()
  shop.mood = 'honest'
  const { code, report } = await shop.pay()
  t.match(
    { code, report },
    { code: exitCodes.badResponse, report: { charged: 'yes', message: /You were charged/ } },
  )
  t.match(report.stateFile, /\.json$/)
  t.match(await shop.pay(), {
    code: exitCodes.badResponse,
    report: { message: /without paying again.*--again pays a second time/ },
  })
  t.equal(shop.payments().size, 1)
})

t.test('two runs at the same time sign one payment; with --again both pay', async (t) => {
  const shop = await openShop(t, parts)
  const runs = await Promise.all([shop.pay(), shop.pay(), shop.pay()])
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
  const both = await Promise.all([shop.pay({ again: true }), shop.pay({ again: true })])
  t.strictSame(
    both.map(({ code }) => code),
    [0, 0],
  )
  t.equal(shop.payments().size, 3)
})

t.test(
  'a run that was killed between signature and answer is gone on with, and two processes pay once',
  async (t) => {
    const shop = await openShop(t, parts)
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
    await lineOf(first, /Signed\. The payment is stored in/)
    t.match(await shop.pay(), { code: exitCodes.underWay })
    first.kill('SIGKILL')
    await once(first, 'exit')
    t.equal(shop.files().length, 1)
    t.equal(statSync(join(shop.home, 'payments', shop.files()[0]!)).mode & 0o777, 0o600)
    shop.mood = 'honest'
    const cost = await spent(async () => {
      t.match(await shop.pay(), { code: 0, report: { outcome: 'paid' } })
    })
    t.equal(cost, 10_000n)
    t.equal(shop.payments().size, 1, 'one payment was ever sent')
  },
)

t.test(
  'a kept payment that is damaged or open to others stops the command and says what to do',
  async (t) => {
    const shop = await openShop(t, parts)
    shop.mood = 'broken'
    await shop.pay()
    const file = join(shop.home, 'payments', shop.files()[0]!)
    const calls = shop.seller.received.length
    chmodSync(file, 0o644)
    t.match(await shop.pay(), {
      code: exitCodes.usage,
      report: { message: /Run chmod 600 on the file first.*--again/ },
    })
    writeFileSync(file, '{"tollgatePayment":1}')
    chmodSync(file, 0o600)
    t.match(await shop.pay(), { code: exitCodes.usage, report: { message: /damaged.*--again/ } })
    t.equal(shop.seller.received.length, calls, 'nobody was asked')
    writeFileSync(join(shop.home, 'payments', 'notes.json'), 'not ours')
    shop.mood = 'honest'
    t.match(await shop.pay({ again: true }), { code: 0 })
  },
)

t.test(
  'a vault is not asked for a second payment: neither by a run that finds one, nor by one that was killed',
  async (t) => {
    const shop = await openShop(t, parts)
    let responses = false
    const signed = new Map<string, Promise<string>>()
    const ordered = Promise.withResolvers<void>()
    const vault = await startFakeVault(t, {
      wallet: () => createEvmBuyer({ privateKey: world.privateKey, rpcUrl: world.chain.rpcUrl }),
      chains: ['base-sepolia'],
      order: async (order, response) => {
        const key = String(order.headers['idempotency-key'])
        if (!signed.has(key)) signed.set(key, order.sign())
        ordered.resolve()
        // The first response is lost after signing.
        if (responses) json(response, 200, { payment_header: await signed.get(key) })
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

    responses = true
    shop.mood = 'broken'
    t.match(await shop.pay({ vault: vault.url }, {}), { code: exitCodes.unknown })
    t.equal(signed.size, 1, 'the order of the killed run was asked for again')
    await vault.stop()
    shop.mood = 'honest'
    t.match(
      await shop.pay({ vault: vault.url }, {}),
      { code: 0, report: { outcome: 'paid' } },
      'without the vault',
    )
    await vault.start()
    t.match(await shop.pay({ vault: vault.url }, {}), { code: 0 })
    t.equal(signed.size, 2, 'the next purchase is another order')
    t.equal(shop.payments().size, 2)
  },
)

t.test('a payment whose time is over, and which the chain does not have, frees the way', async (t) => {
  // The last test: it changes the chain's time for good.
  const shop = await openShop(t, parts)
  shop.mood = 'refuses'
  t.match(await shop.pay(), { code: exitCodes.rejected })
  await world.chain.advanceTime(301)
  const before = shop.payments().size
  const second = await shop.pay()
  t.equal(shop.payments().size, before + 1, 'the way was free')
  t.match(second, { code: exitCodes.rejected })
})

async function lineOf(child: ChildProcess, wanted: RegExp): Promise<void> {
  let text = ''
  for await (const chunk of child.stderr!) if (wanted.test((text += String(chunk)))) return
  throw new Error(`Expected ${wanted}, got ${text}`)
}

t.test(
  'on Solana, run again after an unknown outcome, the same payment is sent, and paid once',
  async (t) => {
    const world = await startSolanaWorld(t)
    const env = { TOLLGATE_SOLANA_KEY: JSON.stringify([...world.secret]) }
    const shop = await openShop(t, { ...world, rpcUrl: world.chain.rpcUrl, env })
    shop.mood = 'broken'
    t.match(await shop.pay(), { code: exitCodes.unknown })
    shop.mood = 'honest'
    t.match(await shop.pay(), { code: 0, report: { outcome: 'paid', isVerified: true } })
    t.equal(shop.payments().size, 1)
  },
)
