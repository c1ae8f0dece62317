import fc from 'fast-check'
import t from 'tap'
import type { ApprovalRequest } from '../../../core/plugin/vault.ts'
import { approvalText } from './approvalText.ts'
import { buttonData, readButton } from './messages.ts'

const approval: ApprovalRequest = {
  id: 'apr_AbCdEf0123456_-x',
  agent: 'shopper',
  operation: 'vault_sign_tx',
  kind: 'transfer',
  parts: [],
  secondWord: null,
  state: 'pending',
  scope: 'wallet.base',
  chain: 'base',
  amount: '3',
  currency: 'USDC',
  recipient: '0x000000000000000000000000000000000000dEaD',
  from: null,
  nonce: null,
  askedBefore: null,
  isFirstTime: null,
  plainWords: ['Sends 3 USDC.'],
  warnings: [],
  reasons: ['There is no rule.'],
  isOpaque: false,
  purpose: null,
  decisionHash: 'ab'.repeat(32),
  expiresAtMs: Date.UTC(2026, 0, 2, 3, 4, 5),
  decidedBy: null,
}

t.test('whatever a question says, the text fits and every mark lies within it', async (t) => {
  const text = fc.string({ unit: 'binary', maxLength: 3_000 })
  fc.assert(
    fc.property(
      fc.array(text, { maxLength: 5 }),
      text,
      text,
      fc.boolean(),
      (words, purpose, agent, isOpaque) => {
        const shown = approvalText({
          ...approval,
          plainWords: words,
          warnings: words,
          purpose,
          agent,
          isOpaque,
        })
        const isInside = shown.entities.every(
          ({ offset, length }) => length > 0 && offset >= 0 && offset + length <= shown.text.length,
        )
        const isPlain = !/(?!\n)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(shown.text)
        const isTold = shown.isWhole
          ? shown.text.includes('abab abab abab abab')
          : /Open the page to decide/.test(shown.text)
        return shown.text.length <= 4_096 && isInside && isPlain && isTold
      },
    ),
    { numRuns: 200 },
  )
  t.pass('all of them')
})

t.test('what does not fit is not whole: nobody is offered to approve it', (t) => {
  const long = approvalText({ ...approval, plainWords: ['x'.repeat(5_000)] })
  t.equal(long.isWhole, false)
  t.equal(approvalText(approval).isWhole, true)
  t.end()
})

t.test('what is signed, sent or stored stands in the chat whole, or the chat offers to deny only', (t) => {
  const part = (text: string, bytes = text.length) =>
    ({
      title: 'Message',
      by: 'agent',
      isRaw: false,
      text,
      format: 'text',
      bytes,
      sha256: '00',
      isWhole: bytes === text.length,
    }) as const
  const whole = approvalText({ ...approval, parts: [part('one\n\n  two')] })
  t.match(whole.text, /Message \(from the agent, 10 bytes\):\n│ one\n│ \n│ {3}two/)
  t.equal(whole.isWhole, true)
  const long = approvalText({ ...approval, parts: [part('x'.repeat(16_384))] })
  const [, shown] = /… shown: ([\d,]+) of 16,384 bytes\. Open the page to decide\.$/.exec(long.text)!
  t.equal(Number(shown!.replace(',', '')), /x{100,}/.exec(long.text)![0].length)
  t.match(long, { isWhole: false, text: /abab abab abab abab/ })
  for (const cut of [
    { parts: [part('', 20)] },
    { parts: [part('one'), part('o', 3), part('three')] },
    { parts: [part('ok')], secondWord: 'blind' },
    { parts: [part('x'.repeat(3_900 - 400)), part('y'.repeat(400))] },
    { plainWords: ['x'.repeat(5_000)], parts: [part('one')] },
  ]) {
    const text = approvalText({ ...approval, ...cut })
    t.match(text, { isWhole: false, text: /Open the page to decide\.$/ })
    t.ok(text.text.length <= 4_096)
  }
  t.notMatch(approvalText({ ...approval, state: 'approved', parts: [part('', 20)] }).text, /open the page/)
  t.match(approvalText({ ...approval, kind: 'allowance' }).text, /Up to: 3 USDC\nTaken by: 0x/)
  t.end()
})

t.test('a button carries the whole hash in the 64 bytes that there are, and gives it back', (t) => {
  const data = buttonData('approve', approval)!
  t.equal(Buffer.byteLength(data), 64)
  t.strictSame(readButton(data), { verb: 'approve', id: approval.id, decisionHash: approval.decisionHash })
  t.match(readButton(buttonData('deny', approval)!), { verb: 'deny' })
  t.equal(buttonData('approve', { ...approval, id: `${approval.id}x` }), undefined)
  t.equal(buttonData('approve', { ...approval, decisionHash: 'ab' }), undefined)
  t.end()
})
