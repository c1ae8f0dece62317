import t from 'tap'
import { parseTransaction } from 'viem/utils'
import { silentLog as log } from '../../../../core/ports/log.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { Hex } from '../rpc/nodes.ts'
import { GapRepair } from './gapRepair.ts'
import { KnownNonces, NonceQueue } from './nonces.ts'
import { signTransaction } from './transaction.ts'

const fees = { maxFeePerGas: 2n, maxPriorityFeePerGas: 1n }
const to = `0x${'22'.repeat(20)}`

/** Repairs of a key with which a former process signed below nonce 9, and the nonces that were filled. */
function repairing(pendingOf: (asked: number) => number) {
  const filled: number[] = []
  let requestCount = 0
  const rpc = {
    async call(_: string, bytes: unknown) {
      filled.push(parseTransaction(bytes as Hex).nonce ?? 0)
      return '0x'
    },
  } as Rpc
  const repairs = new GapRepair({
    network: 'eip155:84532',
    rpc,
    log,
    queue: new NonceQueue(async () => 9),
    known: new KnownNonces(),
    countOf: async (block) => (block === 'latest' ? 6 : pendingOf(requestCount++)),
    strandedMs: () => 900_000,
    currentFees: async () => fees,
    signFiller(nonce, gas) {
      const signed = signTransaction(
        { to, data: '0x', ...fees, chainId: 84_532, nonce, gas },
        Buffer.alloc(32, 1),
      )
      return { settler: '', bytes: signed.bytes, transaction: signed.hash, sequence: String(nonce) }
    },
    mayGoOn: () => true,
    openInStore: () => undefined,
  })
  repairs.adoptBelow(9)
  return { repairs, filled }
}

t.test('numbers that one of two nodes has used are not filled while the other one lags', async (t) => {
  let isBehind = true
  const { repairs, filled } = repairing((asked) => (isBehind && asked % 2 === 0 ? 6 : 9))
  for (let i = 0; i < 2; i++) await repairs.repair()
  t.strictSame([filled, repairs.hasGaps], [[], true], 'and it is looked at again')
  isBehind = false
  await repairs.repair()
  t.strictSame([filled, repairs.hasGaps], [[], false])
  await repairs.close()
})

t.test('one count that is too high keeps no number from being filled', async (t) => {
  for (const wrong of [0, 1]) {
    const { repairs, filled } = repairing((asked) => (asked === wrong ? 37 : 6))
    for (let i = 0; i < 2; i++) await repairs.repair()
    t.strictSame(filled.toSorted(), [6, 7, 8])
    await repairs.close()
  }
})
