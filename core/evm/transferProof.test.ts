import t from 'tap'
import { addressWord, topics, uintWord } from './token.ts'
import {
  type ExpectedTransfer,
  findTransfer,
  isUnreadable,
  type LogEntry,
  type Receipt,
  readReceipt,
} from './transferProof.ts'

const asset = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
const payer = '0x00000000000000000000000000000000000000A1'
const payTo = '0x00000000000000000000000000000000000000b2'
const nonce = `0x${'0c'.repeat(32)}`
const expected: ExpectedTransfer = { asset, payer, payTo, amountAtomic: 10_000n, nonce }

const used = (of = nonce, by = payer, at = asset): Partial<LogEntry> => ({
  address: at,
  topics: [topics.authorizationUsed, `0x${addressWord(by)}`, of],
  data: '0x',
})
const moved = (to = payTo, amount = '10000', from = payer, at = asset): Partial<LogEntry> => ({
  address: at.toLowerCase(),
  topics: [topics.transfer, `0x${addressWord(from)}`, `0x${addressWord(to)}`],
  data: `0x${uintWord(amount)}`,
})
const receipt = (...logs: Partial<LogEntry>[]): Receipt => ({
  status: '0x1',
  blockNumber: '0x1',
  transactionIndex: '0x0',
  transactionHash: '0x01',
  logs: logs.map(
    (log, i) => ({ transactionHash: '0x01', logIndex: `0x${i.toString(16)}`, ...log }) as LogEntry,
  ),
})

t.test('the use of the nonce and the transfer right after it prove the payment', async (t) => {
  t.same(findTransfer(receipt(used(), moved()), expected), {
    status: 'settled',
    transaction: '0x01',
    event: '0',
    block: 1,
    chargedAtomic: 10_000n,
  })
  const stranger = moved(payTo, '1', payer, '0x00000000000000000000000000000000000000ff')
  t.ok(findTransfer(receipt(stranger, used(), stranger, moved()), expected), 'other contracts may speak too')
  const shuffled = receipt(used(), moved())
  t.ok(findTransfer({ ...shuffled, logs: shuffled.logs.toReversed() }, expected), 'their index orders them')
})

t.test('anything less proves nothing', async (t) => {
  const other = `0x${'0d'.repeat(32)}`
  const stranger = '0x00000000000000000000000000000000000000ee'
  const cases: Record<string, Receipt> = {
    'a reverted transaction': { ...receipt(used(), moved()), status: '0x0' },
    'no events': receipt(),
    'only the use': receipt(used()),
    'only the transfer': receipt(moved()),
    'another nonce': receipt(used(other), moved()),
    'another payer': receipt(used(nonce, stranger), moved()),
    'another payee': receipt(used(), moved(stranger)),
    'another amount': receipt(used(), moved(payTo, '9999')),
    'a transfer that was taken back': receipt(used(), { ...moved(), removed: true }),
    'another token’s use': receipt(used(nonce, payer, stranger), moved()),
    'another token’s transfer': receipt(used(), moved(payTo, '10000', payer, stranger)),
  }
  for (const [what, found] of Object.entries(cases)) t.notOk(findTransfer(found, expected), what)
})

t.test('payments that land in one transaction are told apart by their events', async (t) => {
  const other = `0x${'0d'.repeat(32)}`
  const both = receipt(used(), moved(), used(other), moved())
  t.match(findTransfer(both, expected), { transaction: '0x01', event: '0' })
  t.match(findTransfer(both, { ...expected, nonce: other }), { transaction: '0x01', event: '2' })
})

t.test('one transfer in a transaction of two authorisations pays for one of them only', async (t) => {
  const other = `0x${'0d'.repeat(32)}`
  const both = receipt(used(), moved('0x00000000000000000000000000000000000000ee'), used(other), moved())
  t.notOk(findTransfer(both, expected), 'this one went elsewhere')
  t.ok(findTransfer(both, { ...expected, nonce: other }))
})

t.test(
  'a receipt is of this transaction and of a block; one of a block that is not made yet is none',
  async (t) => {
    const whole = receipt(used(), moved())
    t.equal(readReceipt(whole, '0x01'), whole)
    t.equal(readReceipt(whole, '0x02'), undefined)
    for (const blockNumber of [null, undefined, '', 'pending', 1]) {
      t.equal(readReceipt({ ...whole, blockNumber }, '0x01'), undefined, String(blockNumber))
    }
    for (const odd of [null, undefined, 'x', 1, [], {}, { ...whole, logs: {} }]) {
      t.equal(readReceipt(odd, '0x01'), undefined)
    }
  },
)

t.test('a receipt that says neither that it succeeded nor that it was reverted is none', async (t) => {
  const whole = receipt(used(), moved())
  for (const status of [undefined, null, '', '0x01', '0x2', 1, true])
    t.equal(readReceipt({ ...whole, status }, '0x01'), undefined, String(status))
  t.ok(readReceipt({ ...whole, status: '0x0' }, '0x01'), 'one that was reverted is a receipt')
  t.ok(isUnreadable({ ...whole, status: null }, '0x01'), 'nor is its transaction missing')
  for (const other of [whole, null, { ...whole, blockNumber: null }, { ...whole, transactionHash: '0x02' }])
    t.notOk(isUnreadable(other, '0x01'))
})

t.test('a receipt of which an event can not be read, or whose numbers are none, is none', async (t) => {
  const whole = receipt(used(), moved())
  const [first] = whole.logs
  const odd: unknown[] = [null, 'x', 1, {}, { ...first, address: undefined }, { ...first, data: null }]
  odd.push({ ...first, topics: [1] }, { ...first, topics: {} }, { ...first, logIndex: undefined })
  odd.push({ ...first, logIndex: `0x${'f'.repeat(14)}` }, { ...first, transactionHash: null })
  for (const log of odd)
    t.equal(readReceipt({ ...whole, logs: [...whole.logs, log] }, '0x01'), undefined, JSON.stringify(log))
  t.equal(readReceipt({ ...whole, blockNumber: `0x${'f'.repeat(300)}` }, '0x01'), undefined)
})

t.test('nodes may write words in either case', async (t) => {
  const shouted = (log: Partial<LogEntry>) => ({
    ...log,
    topics: log.topics!.map((topic) => `0x${topic.slice(2).toUpperCase()}`),
  })
  t.ok(findTransfer(receipt(shouted(used()), shouted(moved())), expected))
})
