import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { parseTransaction } from 'viem/utils'
import { silentLog as log } from '../../../../core/ports/log.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { Hex } from '../rpc/nodes.ts'
import { SettlingAccount } from './account.ts'

const fees = { maxFeePerGas: 2n, maxPriorityFeePerGas: 1n }

const accountAt = (rpc: Rpc) =>
  new SettlingAccount({
    network: 'eip155:84532',
    privateKey: `0x${'11'.repeat(32)}`,
    rpc,
    log,
    currentFees: async () => fees,
    maxGas: 300_000,
    storeTimeoutMs: 1_000,
    maxFeePerGasWei: 2n,
    sharedKeyMs: 100,
    strandedMs: 2_000,
  })

t.test('numbers that a node has said again and again, and nobody has used, are filled soon', async (t) => {
  for (const isReorganised of [false, true]) {
    let next = 9
    let sent = 0
    const rpc = {
      async call(method: string) {
        if (method === 'eth_sendRawTransaction') sent++
        return `0x${next.toString(16)}`
      },
    } as Rpc
    const account = accountAt(rpc)
    t.teardown(() => account.close())
    // The ledger has nonce 5.
    await account.adopt(
      [],
      () => true,
      async () => ({ nonces: new Set([4, 5]), isComplete: false }),
    )
    await account.checkSharing()
    t.equal(account.isShared, false)
    const call = { to: `0x${'22'.repeat(20)}`, data: '0x01' }
    const { attempt } = await account.sign(call, 300_000, fees, [async () => true])
    t.equal(attempt!.sequence, '9')
    // Recovery sends the ledger's payments that a reorganization undid.
    next = isReorganised ? 4 : 6
    await sleep(110)
    t.equal(account.hasGaps, true)
    await account.repair()
    await sleep(110)
    const before = sent
    await account.repair()
    // Three of nothing, and the payment behind them.
    t.equal(sent - before, isReorganised ? 1 : 4)
  }
})

interface Taken {
  readonly name: string
  /** Nonces for which the ledger has attempts, and which of these was mined recently. */
  readonly booked: readonly number[]
  /** The ledger is complete. */
  readonly isComplete?: true
  readonly mined?: readonly number[]
  readonly filled: readonly number[]
}

const taken: readonly Taken[] = [
  { name: 'a node has said them to the former process', booked: [5, 9], filled: [6, 7, 8] },
  { name: 'the next one is a payment’s', booked: [5, 6, 9], filled: [] },
  { name: 'one between them is a payment’s', booked: [5, 7, 9], filled: [6, 8] },
  { name: 'one of them was mined lately', booked: [5, 9], mined: [7], filled: [6, 8] },
  { name: 'the books forget', booked: [9], filled: [] },
  { name: 'the books are whole, and have none below', booked: [9], isComplete: true, filled: [6, 7, 8] },
  { name: 'the books are whole, and one is a payment’s', booked: [7, 9], isComplete: true, filled: [6, 8] },
  {
    name: 'one that is not booked yet was mined lately',
    booked: [9],
    isComplete: true,
    mined: [7],
    filled: [6, 8],
  },
  { name: 'the books can’t say', booked: [], filled: [] },
]

t.test(
  'numbers below a former process’s payment, which the books have nothing for and nobody has used, are filled soon',
  (t) =>
    Promise.all(
      taken.map(async ({ name, booked, isComplete = false, mined = [], filled }) => {
        let next = 9
        const sent: number[] = []
        const rpc = {
          async call(method: string, bytes: unknown) {
            if (method === 'eth_sendRawTransaction') sent.push(parseTransaction(bytes as Hex).nonce ?? 0)
            return `0x${next.toString(16)}`
          },
        } as Rpc
        const account = accountAt(rpc)
        t.teardown(() => account.close())
        const at = (nonce: number) => ({
          settler: account.id,
          bytes: '',
          transaction: '0x',
          sequence: String(nonce),
        })
        const readLedgerNonces = async () => {
          if (booked.length === 0) throw new Error('away')
          return { nonces: new Set(booked), isComplete }
        }
        const lately = mined.map((nonce) => ({ ...at(nonce), isMined: true as const }))
        await account.adopt([at(9), ...lately], () => true, readLedgerNonces)
        await account.checkSharing()
        next = 6
        await sleep(110)
        t.equal(account.hasGaps, booked.length > 1 || isComplete, name)
        await account.repair()
        t.strictSame(sent, [], name)
        await sleep(110)
        await account.repair()
        t.strictSame(sent.toSorted(), filled, name)
      }),
    ),
)

t.test('where one of two nodes that take turns counts too many for good, they are filled soon', async (t) => {
  const filled: number[] = []
  let requestCount = 0
  const rpc = {
    async call(method: string, bytes: unknown) {
      const wrong = requestCount++ % 2 === 0 ? 0 : 30
      if (method === 'eth_sendRawTransaction') filled.push(parseTransaction(bytes as Hex).nonce ?? 0)
      return `0x${(6 + wrong).toString(16)}`
    },
  } as Rpc
  const account = accountAt(rpc)
  t.teardown(() => account.close())
  const payment = { settler: account.id, bytes: '', transaction: '0x', sequence: '7' }
  await account.adopt(
    [payment],
    () => true,
    async () => ({ nonces: new Set([4, 5, 7]), isComplete: false }),
  )
  for (let look = 0; look < 20 && filled.length === 0; look++) {
    await sleep(50)
    if (account.hasGaps) await account.repair()
  }
  t.equal(filled[0], 6)
})

t.test('at a start with open payments the books are asked once, and again where they could not say', (t) =>
  Promise.all(
    [false, true].map(async (isDownFirst) => {
      const account = accountAt({ call: async () => '0x9' } as unknown as Rpc)
      t.teardown(() => account.close())
      let requestCount = 0
      const readLedgerNonces = async () => {
        if (requestCount++ === 0 && isDownFirst) throw new Error('away')
        return { nonces: new Set([4, 5, 7]), isComplete: false }
      }
      const payment = { settler: account.id, bytes: '', transaction: '0x', sequence: '7' }
      await account.adopt([payment], () => true, readLedgerNonces)
      // The chain has more than the payment's.
      await account.checkSharing()
      t.equal(requestCount, isDownFirst ? 2 : 1)
    }),
  ),
)
