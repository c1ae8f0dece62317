import t from 'tap'
import { createTestClock } from '../../test/helpers/vault/startVault.ts'
import { createOwnerSessions, createSignInCodes } from './ownerSessions.ts'

for (const turnedMs of [0, -86_400_000])
  t.test(`sessions and links end in time on a clock that was turned by ${turnedMs} ms`, async (t) => {
    const passing = createTestClock()
    let turned = 0
    const clock = { ...passing, now: () => passing.now() + turned }
    const sessions = createOwnerSessions(clock)
    const codes = createSignInCodes(clock)
    const { token } = sessions.create()
    const [used, late] = [codes.create().code, codes.create().code]
    turned = turnedMs
    passing.advance(119_999)
    t.equal(codes.redeem(used), true)
    t.equal(codes.redeem(used), false, 'once')
    passing.advance(1)
    t.equal(codes.redeem(late), false)
    t.equal(sessions.isValid(token), true)
    passing.advance(12 * 3_600_000)
    t.equal(sessions.isValid(token), false)
  })
