import t from 'tap'
import { createTestClock, startVault } from '../../test/helpers/vault/startVault.ts'
import { APPROVAL_TTL_MS, ApprovalBook, type ApprovalBookDeps, type NewApproval } from './approvalBook.ts'

const approval: NewApproval = {
  key: 'one request',
  approval: {
    agentId: 'agt_1',
    agentName: 'payer',
    operation: 'vault_sign_tx',
    kind: 'transfer',
    parts: [],
    scope: 'wallet.base',
    chain: 'base',
    amount: '2',
    currency: 'USDC',
    recipient: null,
    from: null,
    nonce: null,
    askedBefore: null,
    isFirstTime: null,
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

async function bookWith(
  t: Test,
  changed: ApprovalBookDeps['events']['changed'] = async () => {},
  clock = createTestClock(),
) {
  return bookOver((await startVault(t)).vault.records, changed, clock)
}

t.test('an owner is not asked again and again: thirty an hour, and a hundred and twenty a day', async (t) => {
  const clock = createTestClock()
  const words: string[] = []
  const { records } = (await startVault(t)).vault
  const events = {
    changed: async () => {},
    wornOut: async (_: unknown, text: string) => void words.push(text),
  }
  const book = new ApprovalBook({ records, clock, events })
  let last = 0
  const ask = (agentId = 'agt_1') =>
    book.ask({ ...approval, key: `request ${++last}`, approval: { ...approval.approval, agentId } })
  const askAndCancel = async () => void (await book.cancel((await ask()).id, 'payer'))
  for (let i = 0; i < 30; i++) await askAndCancel()
  t.strictSame(words, [])
  for (let i = 0; i < 5; i++)
    await t.rejects(ask(), { code: 'RATE_LIMIT_EXCEEDED', retryAfterSeconds: 3_600 })
  t.match(words, [/at most 30 unapproved requests per hour/])
  t.equal(words.length, 1, 'the owner hears of it once')
  t.ok(await ask('agt_2'), 'others are not held back')

  // After a restart it is the same.
  const again = new ApprovalBook({ records, clock, events: { changed: async () => {} } })
  await again.load()
  await t.rejects(again.ask({ ...approval, key: 'after a restart' }), { code: 'RATE_LIMIT_EXCEEDED' })
  again.unload()

  for (let hour = 1; hour < 4; hour++) {
    clock.advance(3_600_000)
    for (let i = 0; i < 30; i++) await askAndCancel()
    await t.rejects(ask(), { code: 'RATE_LIMIT_EXCEEDED' })
  }
  clock.advance(3_600_000)
  await t.rejects(ask(), {
    code: 'RATE_LIMIT_EXCEEDED',
    message: /120 unapproved requests per day/,
    retryAfterSeconds: 72_000,
  })
  clock.advance(72_000_000)
  t.ok(await ask())
  book.unload()
})

t.test('what the owner agrees to is not held against an agent, whatever is asked at once', async (t) => {
  const book = await bookWith(t)
  const ask = (i: number) => book.ask({ ...approval, key: `request ${i}` })
  for (let i = 0; i < 60; i++) {
    const { id, decisionHash } = await ask(i)
    await book.approve(id, decisionHash, 'owner')
  }
  for (let i = 60; i < 75; i++) await book.deny((await ask(i)).id, 'owner')
  const pendingApproval = await Promise.allSettled(Array.from({ length: 40 }, (_, i) => ask(100 + i)))
  t.equal(pendingApproval.filter(({ status }) => status === 'fulfilled').length, 15)
  book.unload()
})

const bookOver = (
  records: ApprovalBookDeps['records'],
  changed: ApprovalBookDeps['events']['changed'] = async () => {},
  clock = createTestClock(),
) => new ApprovalBook({ records, clock, events: { changed } })

t.test('a clock that is turned back gives a question, an approval and a wait no more time', async (t) => {
  const { records } = (await startVault(t)).vault
  const passing = createTestClock()
  let turnedMs = 0
  const clock = { ...passing, now: () => passing.now() + turnedMs }
  const turnBack = () => (turnedMs -= 86_400_000)
  const book = bookOver(records, undefined, clock)
  const pendingApproval = await book.ask(approval)
  const approved = await book.ask({ ...approval, key: 'approved' })
  await book.approve(approved.id, approved.decisionHash, 'owner')
  turnBack()
  t.equal(book.byKey('approved', true)?.state, 'approved')
  passing.advance(APPROVAL_TTL_MS)
  t.equal(book.byKey('approved', true)?.state, 'expired')
  await t.rejects(book.approve(pendingApproval.id, pendingApproval.decisionHash, 'owner'), {
    code: 'APPROVAL_EXPIRED',
  })

  const later = await book.ask({ ...approval, key: 'over a restart' })
  turnBack()
  const again = bookOver(records, undefined, clock)
  await again.load()
  passing.advance(APPROVAL_TTL_MS)
  await t.rejects(again.approve(later.id, later.decisionHash, 'owner'), { code: 'APPROVAL_EXPIRED' })

  const ask = (i: number) => again.ask({ ...approval, key: `request ${i}` })
  for (let i = 0; i < 28; i++) await again.cancel((await ask(i)).id, 'payer')
  turnBack()
  await t.rejects(ask(28), { code: 'RATE_LIMIT_EXCEEDED' })
  passing.advance(3_600_000)
  t.equal((await ask(28)).state, 'pending')
  again.unload()
})

t.test('who joins a question while it is being written down waits for its answer', async (t) => {
  const written = Promise.withResolvers<void>()
  const logged = Promise.withResolvers<void>()
  const book = await bookWith(t, async ({ state }) => {
    if (state !== 'pending') return
    written.resolve()
    await logged.promise
  })
  const asked = book.ask(approval)
  await written.promise
  const joined = book.byKey(approval.key, false)!
  const waiting = book.settled(joined.id, 60_000)
  logged.resolve()
  await asked
  await book.approve(joined.id, joined.decisionHash, 'owner')
  t.equal((await waiting).state, 'approved')
})

t.test('the same request at the same time is one question', async (t) => {
  const book = await bookWith(t)
  const pendingApproval = await Promise.all([book.ask(approval), book.ask(approval), book.ask(approval)])
  t.equal(new Set(pendingApproval.map(({ id }) => id)).size, 1)
  t.equal(book.list().length, 1)
})

t.test('open questions hold a bounded sum of bytes: of one agent, and of all', async (t) => {
  const book = await bookWith(t)
  const text = 'x'.repeat(60_000)
  const part = { title: 'Message', text, format: 'text', bytes: 60_000, sha256: '', isWhole: true } as const
  const big = (agent: number, n: number): NewApproval => ({
    ...approval,
    key: `${agent} ${n}`,
    approval: {
      ...approval.approval,
      agentId: `agt_${agent}`,
      parts: [{ ...part, by: 'agent', isRaw: false, isSecret: false }],
    },
  })
  const refused = { code: 'RATE_LIMIT_EXCEEDED' }
  const pendingApproval = await Promise.allSettled(Array.from({ length: 12 }, (_, n) => book.ask(big(0, n))))
  t.equal(pendingApproval.filter(({ status }) => status === 'fulfilled').length, 8)
  const [first] = book.list()
  await book.deny(first!.id, 'owner')
  t.notOk(book.get(first!.id)!.parts[0]!.text, 'a long text is gone with the decision')
  await book.ask(big(0, 20))
  await t.rejects(book.ask(big(0, 21)), refused)
  let open = 8
  for (let agent = 1; agent < 10; agent++)
    for (let n = 0; n < 8; n++)
      await book.ask(big(agent, n)).then(
        () => open++,
        (error) => t.match(error, refused),
      )
  t.equal(open, 69, 'of all of them together four MiB')
  await t.resolves(book.ask({ ...approval, key: 'a short one' }), 'and there is room for what is short')
})

t.test('nobody waits any longer than the book is open', async (t) => {
  const book = await bookWith(t)
  const { id } = await book.ask(approval)
  const waiting = book.settled(id, 60_000)
  book.unload()
  await t.rejects(waiting, { code: 'VAULT_LOCKED' })
})

t.test('whoever comes back for an answer finds the denial, not another question', async (t) => {
  const clock = createTestClock()
  const book = await bookWith(t, async () => {}, clock)
  const { id } = await book.ask(approval)
  await book.deny(id, 'owner')
  t.match(book.byKey(approval.key, false), { id, state: 'denied' })
  t.match(book.byKey(approval.key, true), { id, state: 'denied' })
  clock.advance(APPROVAL_TTL_MS)
  t.equal(book.byKey(approval.key, false), undefined, 'later, the owner may be asked once more')
  t.match(book.byKey(approval.key, true), { id, state: 'denied' }, 'but not under the same Idempotency-Key')
})

t.test('under an Idempotency-Key a question that is over stays over', async (t) => {
  const clock = createTestClock()
  const book = await bookWith(t, async () => {}, clock)
  const canceled = await book.ask(approval)
  await book.cancel(canceled.id, 'agent')
  t.equal(book.byKey(approval.key, false), undefined, 'whoever took it back may ask again')
  t.match(book.byKey(approval.key, true), { state: 'canceled' })
  for (const response of ['none', 'approved'] as const) {
    const { id, decisionHash } = await book.ask(approval)
    if (response === 'approved') await book.approve(id, decisionHash, 'owner')
    clock.advance(APPROVAL_TTL_MS)
    t.equal(book.byKey(approval.key, false), undefined)
    t.match(book.byKey(approval.key, true), { id, state: 'expired' }, 'before it is swept')
    await book.settled(id, 0)
    t.match(book.byKey(approval.key, true), { id, state: 'expired' }, 'and after')
  }
})
