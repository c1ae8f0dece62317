import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { openStore as openDatabase } from '../../cli/runtime/open/openStore.ts'
import { startApi } from './helpers/api.ts'
import { newBuyer, read } from './helpers/buyers.ts'
import { type Chain, newSellerWallets, startChains } from './helpers/chains.ts'
import { startGateway } from './helpers/child.ts'
import { writeConfig } from './helpers/config.ts'
import { eventually } from './helpers/eventually.ts'
import { openStore } from './helpers/store.ts'

const chains = await startChains(t, { solana: { slotMs: 400 } })
const config = await writeConfig(t, chains, {
  sections: { log: { level: 'info', format: 'json' } },
})
const gateway = { port: Number(new URL(config.url).port), workers: 2, drainTimeoutMs: 3_000 }
const sections = { log: { level: 'info', format: 'json' }, gateway }
config.rewrite(sections)
const wallets = newSellerWallets(chains)
const api = await startApi(t)
const store = await openStore(config, chains.env, wallets)
const fleet = await startGateway(t, config, chains.env)
const ledger = await openDatabase(config.file, chains.env)
t.teardown(() => ledger.close())

/** Process ids of the fleet's workers; only Linux says. */
async function workersOf(pid: number): Promise<number[]> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return children.trim().split(' ').map(Number)
}

/**
 * A connection of its own for every call, so that the calls spread over the processes; given up after 15 s as common
 * clients do: a connection that was on its way to a killed process is never answered.
 */
const present = async (url: string, payment: string) =>
  read(
    await fetch(url, {
      headers: { 'payment-signature': payment, connection: 'close' },
      signal: AbortSignal.timeout(15_000),
    }),
  )

const payToOn = ({ name }: Chain) => (name === 'evm' ? wallets.base : wallets.solana)
const links = {
  evm: await store.addLink({ url: api.url, slug: 'fleet-evm', price: '0.01' }),
  solana: await store.addLink({ url: api.url, slug: 'fleet-solana', price: '0.01' }),
}

for (const chain of chains.both) {
  const payTo = payToOn(chain)
  const url = links[chain.name]
  const buyer = await newBuyer(chains, chain)

  t.test(`a hundred uses of one payment over two processes are one call on ${chain.name}`, async (t) => {
    const payment = await buyer.sign(`${url}?n=hundred`)
    const purchases = (await ledger.purchases.ledgerCheck()).purchases
    const [transfers, calls] = [(await chain.transfersTo(payTo)).length, api.calls.length]
    const responses = await Promise.all(
      Array.from({ length: 100 }, () => present(`${url}?n=hundred`, payment)),
    )
    t.ok(
      responses.every(({ status }) => status === 200),
      'everybody who asked is answered',
    )
    t.equal(new Set(responses.map(({ text }) => text)).size, 1, 'with the one answer')
    t.equal((await chain.transfersTo(payTo)).length - transfers, 1)
    t.equal(api.calls.length - calls, 1)
    t.equal((await ledger.purchases.ledgerCheck()).purchases - purchases, 1)
  })

  t.test(`twenty payments over two processes are twenty calls on ${chain.name}`, async (t) => {
    const urls = Array.from({ length: 20 }, (_, i) => `${url}?n=twenty-${i}`)
    const payments = await Promise.all(urls.map((one) => buyer.sign(one)))
    const transfers = (await chain.transfersTo(payTo)).length
    const responses = await Promise.all(urls.map((one, i) => present(one, payments[i]!)))
    t.strictSame(
      responses.map(({ status }) => status),
      Array(20).fill(200),
    )
    t.equal((await chain.transfersTo(payTo)).length - transfers, 20)
    t.equal(new Set(responses.map(({ body }) => body._svc?.purchaseId)).size, 20)
  })
}

t.test('processes of the fleet that die while the chain is asked lose nothing', async (t) => {
  const waiting = await Promise.all(
    chains.both.map(async (chain) => {
      const target = `${links[chain.name]}?n=dies-${chain.name}`
      const payment = await (await newBuyer(chains, chain)).sign(target)
      const before = (await chain.transfersTo(payToOn(chain))).length
      const release = chain.rpc.add(chain.methods.status, { kind: 'hold' })
      chain.rpc.resetCounters()
      const lost = present(target, payment).catch((): undefined => undefined)
      await chain.rpc.whenCalled(chain.methods.status)
      return { chain, target, payment, before, release, lost }
    }),
  )
  for (const pid of await workersOf(fleet.pid)) process.kill(pid, 'SIGKILL')
  for (const { chain, target, payment, before, release, lost } of waiting) {
    t.equal(await lost, undefined)
    release()
    const response = await eventually(async () => {
      const again = await present(target, payment).catch(() => undefined)
      return again?.status === 200 ? again : undefined
    }, 45_000)
    t.match(response.body, { data: { target: `/?n=dies-${chain.name}` } })
    t.equal((await chain.transfersTo(payToOn(chain))).length - before, 1)
    t.equal(api.calls.filter((call) => target.endsWith(call.slice(1))).length, 1, 'the seller worked once')
  }
})

t.test(
  'a process that follows another is configured as its fleet, whatever the file says by now',
  async (t) => {
    const successors = async () => {
      const killed = await workersOf(fleet.pid)
      for (const pid of killed) process.kill(pid, 'SIGKILL')
      await eventually(async () => {
        const now = await workersOf(fleet.pid)
        return (now.length === 2 && !now.some((pid) => killed.includes(pid))) || undefined
      })
    }
    const buys = async (n: string) => {
      const target = `${links.evm}?n=${n}`
      const buyer = await newBuyer(chains, chains.both[0])
      const payment = await eventually(() => buyer.sign(target).catch(() => undefined))
      return eventually(async () => {
        const response = await present(target, payment).catch(() => undefined)
        return response?.status === 200 || undefined
      })
    }
    config.rewrite({ ...sections, plugins: 'none' })
    await fleet.waitForOutput('the new configuration is invalid')
    await successors()
    t.ok(await buys('after-a-refused-one'))

    config.rewrite({ ...sections, storage: { path: './data/other.db' } })
    await fleet.waitForOutput('take effect after a restart')
    await successors()
    t.ok(await buys('after-another-storage'), 'the link is there')
    t.notOk(existsSync(join(config.dir, 'data/other.db')))
  },
)

t.test('the fleet drains on SIGTERM, and its books hold', async (t) => {
  fleet.signal('SIGTERM')
  const { code } = await fleet.exited
  t.equal(code, 0)
  t.match(await ledger.purchases.ledgerCheck(), {
    unresolvedPayments: 0,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})
