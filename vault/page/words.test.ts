import t from 'tap'
import { wordsOfEntry } from './app/activity/activityWords.ts'
import { bytesOf, dayOf, spokenTime } from './app/words.ts'

const now = new Date(2026, 10, 22, 14, 30)
const at = (...time: [number, number, number, number, number, number?]) => new Date(...time).toISOString()

t.test('a time is told as people say it, and one of tomorrow is never told as past', (t) => {
  t.equal(spokenTime(at(2026, 10, 22, 14, 29, 30), now), 'just now')
  t.equal(spokenTime(at(2026, 10, 22, 14, 28), now), '2 min ago')
  t.equal(spokenTime(at(2026, 10, 22, 13, 30), now), 'today 13:30')
  t.equal(spokenTime(at(2026, 10, 22, 0, 5), now), 'today 00:05')
  t.equal(spokenTime(at(2026, 10, 21, 23, 59), now), 'yesterday 23:59')
  t.match(spokenTime(at(2026, 10, 20, 9, 5), now), /20.*, 09:05$/)
  t.equal(spokenTime(at(2026, 10, 22, 14, 35), now), 'today 14:35')
  t.equal(spokenTime(at(2026, 0, 1, 0, 0), new Date(2026, 0, 1, 0, 0, 20)), 'just now')
  t.end()
})

t.test('days have names, and their year where it is another', (t) => {
  t.equal(dayOf(at(2026, 10, 22, 0, 0), now), 'Today')
  t.equal(dayOf(at(2026, 10, 21, 0, 0), now), 'Yesterday')
  t.match(dayOf(at(2026, 10, 20, 12, 0), now), /20/)
  t.notMatch(dayOf(at(2026, 10, 20, 12, 0), now), /2026/)
  t.match(dayOf(at(2025, 11, 31, 12, 0), now), /2025/)
  t.equal(dayOf(at(2025, 11, 31, 12, 0), new Date(2026, 0, 1, 8)), 'Yesterday')
  t.end()
})

t.test('a size is exact, however large', (t) => {
  t.strictSame([0, 1, 1_023, 1_024, 16_384, 1_234].map(bytesOf), [
    '0 bytes',
    '1 byte',
    '1,023 bytes',
    '1 KiB',
    '16 KiB',
    '1.2 KiB (1,234 bytes)',
  ])
  t.end()
})

t.test('an amount that was given back never reads as money that went to the seller', (t) => {
  const entry = {
    timestamp: now.toISOString(),
    agent: 'shopper',
    action: 'GIVE_BACK',
    currency: 'USDC',
    status: 'AUTO_APPROVED',
    details: { seq: 1, amount: '0.75', recipient: '0xdead', chain: 'base', note: 'it cost less' } as never,
  }
  t.match(wordsOfEntry(entry), {
    what: 'Give back to the budget',
    outcome: 'Done',
    more: ['for a payment to 0xdead', 'on Base', 'it cost less'],
  })
  t.match(wordsOfEntry({ ...entry, action: 'SIGN' }), { more: ['to 0xdead', 'on Base', 'it cost less'] })
  t.end()
})
