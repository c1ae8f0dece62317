import t from 'tap'
import { createTestClock, startVault } from '../testing/startVault.ts'
import { type ApprovalBookParts, createApprovalBook, type NewApproval } from './approvalBook.ts'

const question: NewApproval = {
  key: 'one request',
  question: {
    agentId: 'agt_1',
    agentName: 'payer',
    operation: 'vault_sign_tx',
    scope: 'wallet.base',
    chain: 'base',
    amount: '2',
    currency: 'USDC',
    recipient: null,
    plainWords: [],
    warnings: [],
    reasons: [],
    isOpaque: false,
    purpose: null,
    frozenHash: '00',
  },
  frozen: null,
  decisionHash: (id) => `hash of ${id}`,
  reserve: () => null,
}

type Test = Parameters<typeof startVault>[0]

async function bookWith(t: Test, changed: ApprovalBookParts['events']['changed'] = async () => {}) {
  const { records } = (await startVault(t)).vault
  return createApprovalBook({ records, clock: createTestClock(), events: { changed } })
}

t.test('who joins a question while it is being written down waits for its answer', async (t) => {
  const written = Promise.withResolvers<void>()
  const logged = Promise.withResolvers<void>()
  const book = await bookWith(t, async ({ state }) => {
    if (state !== 'pending') return
    written.resolve()
    await logged.promise
  })
  const asked = book.ask(question)
  await written.promise
  const joined = book.byKey(question.key)!
  const waiting = book.settled(joined.id, 60_000)
  logged.resolve()
  await asked
  await book.approve(joined.id, joined.decisionHash, 'owner')
  t.equal((await waiting).state, 'approved')
})

t.test('the same request at the same time is one question', async (t) => {
  const book = await bookWith(t)
  const asked = await Promise.all([book.ask(question), book.ask(question), book.ask(question)])
  t.equal(new Set(asked.map(({ id }) => id)).size, 1)
  t.equal(book.list().length, 1)
})

t.test('nobody waits any longer than the book is open', async (t) => {
  const book = await bookWith(t)
  const { id } = await book.ask(question)
  const waiting = book.settled(id, 60_000)
  book.unload()
  await t.rejects(waiting, { code: 'VAULT_LOCKED' })
})
