import assert from 'node:assert/strict'
import type { ServedLink } from '../../core/domain/link.ts'
import { chargedStates } from '../../core/domain/payment.ts'
import { scriptedPayment } from '../helpers/settler.ts'
import type { InlineStore } from './inlineStore.ts'
import { Scheduler } from './scheduler.ts'
import { type Asked, World } from './world.ts'

const PRICE = '100000'
/** A round of the reconciler finds everything stuck after this long. */
const LONG_MS = 130_000

export interface Simulation {
  readonly store: InlineStore
  /** One that is charged after the answer, one before. */
  readonly links: readonly ServedLink[]
  /** The store's clock follows the scheduler of the seed that runs. */
  setClock(scheduler: Scheduler): void
}

/**
 * Runs one seed: buyers who call, repeat, hang up and try one payment on two things, a process that is killed, a store, a
 * chain and sellers that fail; then everything works again, and the books are judged.
 *
 * @throws {AssertionError} whose message names the seed
 */
export async function simulate(seed: number, { store, links, setClock }: Simulation): Promise<void> {
  const scheduler = new Scheduler(seed)
  setClock(scheduler)
  store.clear()
  const giveBack = scheduler.takeTimers()
  try {
    const world = new World(scheduler, store, links)
    await world.start()
    const nonces = Array.from({ length: 1 + Math.floor(scheduler.random() * 3) }, (_, i) => `${seed}-${i}`)
    const homes = new Map(nonces.map((nonce) => [nonce, scheduler.chance(0.6) ? 0 : 1]))
    await trouble(world, scheduler, nonces, homes)
    world.isFaulty = false
    await recovery(world, scheduler, nonces, homes)
    judge(world, store, nonces)
  } catch (error) {
    throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error })
  } finally {
    giveBack()
  }
}

const askFor = (world: World, nonce: string, link: number, path: string): Asked =>
  world.ask(nonce, link, path, scriptedPayment(nonce, PRICE))

async function trouble(world: World, scheduler: Scheduler, nonces: string[], homes: Map<string, number>) {
  const actions = 6 + Math.floor(scheduler.random() * 14)
  for (let i = 0; i < actions; i++) {
    const dice = scheduler.random()
    const nonce = scheduler.pick(nonces)
    if (dice < 0.5) askFor(world, nonce, homes.get(nonce)!, '')
    else if (dice < 0.58) askFor(world, nonce, homes.get(nonce)!, '/else')
    else if (dice < 0.62) askFor(world, nonce, 1 - homes.get(nonce)!, '')
    else if (dice < 0.74 && world.asked.length > 0) scheduler.pick(world.asked).res.hangUp()
    else if (dice < 0.86) world.reconcile()
    else if (dice < 0.93) await world.crash()
    else {
      scheduler.nowMs += scheduler.pick([1_000, 11_000, LONG_MS])
      await world.heartbeat()
    }
    const steps = Math.floor(scheduler.random() * 12)
    for (let step = 0; step < steps; step++) await scheduler.step()
    assertNoDoubleTransfer(world)
  }
}

async function recovery(world: World, scheduler: Scheduler, nonces: string[], homes: Map<string, number>) {
  await scheduler.settleDown(20_000)
  for (const nonce of nonces) {
    for (let tries = 0; ; tries++) {
      scheduler.nowMs += LONG_MS
      await world.heartbeat()
      world.reconcile()
      await scheduler.settleDown(5_000)
      const { res } = askFor(world, nonce, homes.get(nonce)!, '')
      await scheduler.settleDown(5_000)
      const status = res.got?.status ?? 0
      if ([200, 400, 409].includes(status)) break
      assert.equal(status, 503, `an honest call was answered ${status}`)
      assert.ok(tries < 10, `payment ${nonce} never came to an end`)
    }
  }
}

function assertNoDoubleTransfer({ settler }: World): void {
  assert.equal(new Set(settler.transfers).size, settler.transfers.length, 'a payment was transferred twice')
}

/** The promise about money: what is on chain is in the books, once, and who has an answer has paid for it. */
function judge(world: World, store: InlineStore, nonces: readonly string[]): void {
  assertNoDoubleTransfer(world)
  const { transfers } = world.settler
  const rows = store.all(`
    SELECT p.nonce, p.state, l.slug, u.id AS purchase, u.status, u.payment_key AS key,
      (SELECT count(*) FROM ledger_entries e WHERE e.purchase_id = u.id) AS entries
    FROM payments p JOIN links l ON l.id = p.link_id LEFT JOIN purchases u ON u.payment_key = p.key`)
  assert.equal(store.all('SELECT 1 FROM purchases').length, transfers.length, 'transfers = purchases')
  for (const nonce of nonces) {
    const row = rows.find((r) => r['nonce'] === nonce)
    const answers = world.asked.flatMap(({ nonce: n, what, res }) =>
      n === nonce && res.got?.status === 200 ? [{ what, ...res.got }] : [],
    )
    const runs = world.runs.get(nonce) ?? 0
    if (!transfers.includes(nonce)) {
      assert.equal(answers.length, 0, `${nonce}: answered without a transfer`)
      assert.ok(
        !row || ['failed_final', 'rejected'].includes(String(row['state'])),
        `${nonce} is ${row?.['state']}`,
      )
      continue
    }
    assert.ok((chargedStates as readonly unknown[]).includes(row?.['state']), `${nonce} is ${row?.['state']}`)
    assert.equal(row!['status'], row!['state'], `${nonce}: the purchase is as the payment`)
    assert.equal(row!['entries'], 4, `${nonce}: booked once`)
    for (const answer of answers) {
      assert.equal(
        headerOf(answer.headers, 'X-Purchase-Id'),
        row!['purchase'],
        `${nonce}: the purchase that was told`,
      )
      assert.equal(answer.body, answers[0]!.body, `${nonce}: every answer is the same`)
      assert.equal(answer.what, answers[0]!.what, `${nonce}: one payment buys one call`)
    }
    const afterwards = runs - world.runsAtTransfer.get(nonce)!
    const mayFollow = row!['slug'] === 'before' ? 1 : 0
    assert.ok(afterwards <= mayFollow, `${nonce}: worked ${afterwards} times after the charge`)
  }
}

const headerOf = (headers: readonly string[], name: string) => headers[headers.indexOf(name) + 1]
