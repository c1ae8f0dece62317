import t from 'tap'
import { evmPaymentKey, evmPaymentKeyPrefix } from '../../../../core/domain/payment.ts'
import { permit2Proxies } from '../../../../core/evm/permit2.ts'
import { addressWord, topics, uintWord } from '../../../../core/evm/token.ts'
import type { LogEntry, Receipt } from '../../../../core/evm/transferProof.ts'
import type { TransferBack } from '../../../../core/ports/chains/refundProofs.ts'
import { judgeRefund } from './refundProofs.ts'

const network = 'eip155:84532'
const asset = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
const seller = '0x00000000000000000000000000000000000000A1'
const buyer = '0x00000000000000000000000000000000000000b2'
const stranger = '0x00000000000000000000000000000000000000ee'
const expected: TransferBack = {
  network,
  asset,
  from: seller,
  to: buyer,
  amountAtomic: 10_000n,
  transaction: '0x02',
  saleTransaction: '0x01',
}

const moved = (amount = '10000', from = seller, to = buyer, at = asset): Partial<LogEntry> => ({
  address: at,
  topics: [topics.transfer, `0x${addressWord(from)}`, `0x${addressWord(to)}`],
  data: `0x${uintWord(amount)}`,
})
const used = (by: string, nonce: string): Partial<LogEntry> => ({
  address: asset,
  topics: [topics.authorizationUsed, `0x${addressWord(by)}`, nonce],
  data: '0x',
})
const receiptAt = (block: number, index: number, ...logs: Partial<LogEntry>[]): Receipt => ({
  status: '0x1',
  blockNumber: `0x${block.toString(16)}`,
  transactionIndex: `0x${index.toString(16)}`,
  transactionHash: '0x02',
  logs: logs.map((log, i) => ({ transactionHash: '0x02', logIndex: `0x${i}`, ...log }) as LogEntry),
})
const sale = receiptAt(8, 3)
const judge = (...logs: Partial<LogEntry>[]) => judgeRefund(receiptAt(9, 0, ...logs), sale, expected)
const proved = { status: 'proved', paymentKeys: [] }

t.test('a transfer from the seller to the buyer of at least the amount proves the refund', async (t) => {
  t.strictSame(judge(moved()), proved)
  t.strictSame(judge(moved('10001')), proved, 'more is fine')
  t.strictSame(judge(moved('4000'), moved('6000')), proved, 'in two parts, too')
  t.strictSame(judge(moved('5', stranger), moved('7', seller, stranger), moved()), proved)
  t.strictSame(judge({ ...moved(), address: asset.toLowerCase() }), proved)
})

t.test('a payment of the seller by Permit2 for a purchase of its own is no refund', async (t) => {
  const settled: Partial<LogEntry> = {
    address: permit2Proxies.exact,
    topics: [`0x${'5e'.repeat(32)}`],
    data: '0x',
  }
  t.strictSame(judge(moved(), settled), { status: 'mismatch', what: 'sender' })
  t.strictSame(judge(settled, moved()), proved, 'an event before the transfer belongs to another payment')
})

t.test('anything less proves nothing, and says what does not fit', async (t) => {
  const erc721 = { ...moved(), topics: [...moved().topics!, `0x${uintWord('10000')}`], data: '0x' }
  const cases: Record<string, [string, Partial<LogEntry>[]]> = {
    'no events': ['asset', []],
    'another token': ['asset', [moved('10000', seller, buyer, stranger)]],
    'another event of the token': ['asset', [used(seller, `0x${'0c'.repeat(32)}`)]],
    'a collectible with that number': ['asset', [erc721]],
    'the wrong direction': ['recipient', [moved('10000', buyer, seller)]],
    'to another wallet': ['recipient', [moved('10000', seller, stranger)]],
    'from another wallet': ['sender', [moved('10000', stranger, buyer)]],
    'the buyer to itself': ['sender', [moved('10000', buyer, buyer)]],
    'one unit less': ['amount', [moved('9999')]],
    'the rest from somebody else': ['amount', [moved('9999'), moved('1', stranger)]],
    'sent back in the same transaction': ['amount', [moved(), moved('1', buyer, seller)]],
  }
  for (const [name, [what, logs]] of Object.entries(cases)) {
    t.strictSame(judge(...logs), { status: 'mismatch', what }, name)
  }
})

t.test('a transaction that failed is no refund, whatever events a node shows for it', async (t) => {
  const failed = { ...receiptAt(9, 0, moved()), status: '0x0' }
  t.strictSame(judgeRefund(failed, sale, expected), { status: 'reverted' })
})

t.test('money that went back before it came is no refund', async (t) => {
  const order = { status: 'mismatch', what: 'order' }
  t.strictSame(judgeRefund(receiptAt(7, 9, moved()), sale, expected), order)
  t.strictSame(judgeRefund(receiptAt(8, 2, moved()), sale, expected), order)
  t.strictSame(judgeRefund(receiptAt(8, 3, moved()), sale, expected), order, 'nor the sale itself')
  t.strictSame(judgeRefund(receiptAt(8, 4, moved()), sale, expected), proved)
})

t.test('the authorisations of the seller that it used are named: each may be a payment', async (t) => {
  const [nonce, other] = [`0x${'0C'.repeat(32)}`, `0x${'0d'.repeat(32)}`]
  const key = (of: string) =>
    evmPaymentKey(evmPaymentKeyPrefix(network, asset), seller.toLowerCase(), of.toLowerCase())
  t.strictSame(judge(used(seller, nonce), moved(), used(stranger, other), moved('1', stranger)), {
    status: 'proved',
    paymentKeys: [key(nonce)],
  })
  t.strictSame(judge(moved(), used(seller, other), used(seller, nonce)), {
    status: 'proved',
    paymentKeys: [key(other), key(nonce)],
  })
})
