import assert from 'node:assert/strict'
import type { Session } from '../../../core/domain/session.ts'
import { PRICE, sign } from '../buyers.ts'
import type { World } from '../world.ts'
import { openSession, sendTransfer, withSessionRoutes } from './sessionTraffic.ts'

type Act = [weight: number, act: (world: World) => void]

/** In one seed of three there are sessions, with payments signed for them; some are over soon. */
export async function openSessions(world: World): Promise<void> {
  const { scheduler, chain, signedForSessions } = world
  if (!scheduler.chance(0.33)) return
  for (let i = scheduler.between(1, 2); i > 0; i--)
    await openSession(world, scheduler.pick([10_000, 30_000, undefined, undefined]))
  for (let i = scheduler.between(1, 4); i > 0; i--) {
    const validForMs = scheduler.pick([25_000, 60_000, 120_000])
    const signed = sign(world, `${scheduler.seed}-session-${i}`, `session ${i}`, { link: -1, validForMs })
    signedForSessions.push(signed)
    if (scheduler.chance(0.9)) chain.topUp(signed.payer, PRICE)
  }
}

const onOne =
  (act: (world: World, session: Session) => void) =>
  (world: World): void => {
    if (world.sessions.length > 0) act(world, world.scheduler.pick(world.sessions))
  }

/** What may happen to sessions in a seed that has some, beside what happens to all. */
export const sessionActs: readonly Act[] = [
  [
    16,
    onOne((world, session) => {
      const { header } = world.scheduler.pick(world.signedForSessions)
      withSessionRoutes(world, world.scheduler.pick(world.processes), (sessionRoutes) =>
        sessionRoutes.pay(session, header),
      )
    }),
  ],
  [
    8,
    onOne((world, session) => {
      if (world.sent.length < 4) sendTransfer(world, session, world.scheduler.chance(0.8) ? PRICE : PRICE + 1)
    }),
  ],
  [
    8,
    onOne((world, session) => {
      if (world.sent.length === 0) return
      const { transaction } = world.scheduler.pick(world.sent)
      withSessionRoutes(world, world.scheduler.pick(world.processes), (sessionRoutes) =>
        sessionRoutes.confirm(session, transaction),
      )
    }),
  ],
  [
    6,
    onOne((world, session) =>
      withSessionRoutes(world, world.scheduler.pick(world.processes), (sessionRoutes) =>
        sessionRoutes.confirm(session),
      ),
    ),
  ],
  [
    1,
    onOne((world, session) =>
      withSessionRoutes(world, world.scheduler.pick(world.processes), (sessionRoutes) =>
        sessionRoutes.cancel(session),
      ),
    ),
  ],
  [
    5,
    onOne((world) =>
      withSessionRoutes(world, world.scheduler.pick(world.processes), (sessionRoutes) =>
        sessionRoutes.expire(),
      ),
    ),
  ],
]

/** Asked again, something else may be heard. */
const isOpen = (outcome: string | undefined): boolean =>
  outcome === undefined ||
  [
    'pending',
    'settlement_pending',
    'settlement_unavailable',
    'store_unavailable',
    'CHAIN_UNAVAILABLE',
  ].includes(outcome)

/** Every buyer of a session pays once more, and every seller names what was sent. @returns whether nothing is open any more */
export async function comeBackToSessions(world: World): Promise<boolean> {
  const { scheduler, sessions, signedForSessions, sent } = world
  const process = scheduler.pick(world.processes)
  let isDone = true
  const turn = async (ask: Parameters<typeof withSessionRoutes>[2]) => {
    let outcome: string | undefined
    withSessionRoutes(world, process, ask, (what) => void (outcome = what))
    await scheduler.until(scheduler.nowMs + 60_000, () => outcome !== undefined)
    assert.equal(world.misuse, undefined)
    if (isOpen(outcome)) isDone = false
  }
  for (const [i, { header }] of signedForSessions.entries())
    await turn((sessionRoutes) => sessionRoutes.pay(sessions[i % sessions.length]!, header))
  for (const { session, transaction } of sent)
    await turn((sessionRoutes) => sessionRoutes.confirm(session, transaction))
  return isDone
}
