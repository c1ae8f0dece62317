import { hash } from 'node:crypto'
import { transferKey } from '../../../core/domain/payment.ts'
import { SESSION_LIFETIME_MS, type Session } from '../../../core/domain/session.ts'
import { testNetwork } from '../../helpers/settler.ts'
import { PRICE } from '../buyers.ts'
import { Chain } from '../chain.ts'
import type { GatewayProcess } from '../gatewayProcess.ts'
import type { World } from '../world.ts'
import type { SessionRoutes } from './checkout.ts'

/** A plain transfer that a buyer sent for a session, of its price or of another amount. */
export interface Sent {
  readonly nonce: string
  readonly transaction: string
  readonly key: string
  readonly isExact: boolean
  readonly session: Session
}

/** A session that its seller asks to be paid. */
export async function openSession(
  { scheduler, store, sessions }: World,
  lifetimeMs = SESSION_LIFETIME_MS,
): Promise<void> {
  const createdAtMs = Chain.timeOf(scheduler.nowMs)
  const id = `00000000-0000-4000-8000-${String(sessions.length).padStart(12, '0')}`
  const storeId = store.served[0]!.storeId
  const session = await store.sessions.create({
    ...{
      id,
      storeId,
      linkId: null,
      secretHash: '',
      price: '0.10',
      payout: { base: null, solana: null },
      asks: null,
      title: 't',
    },
    ...{ description: '', successUrl: null, cancelUrl: null, allowedOrigin: null },
    ...{ clientReferenceId: null, metadata: {}, idempotency: null },
    ...{ createdAtMs, expiresAtMs: createdAtMs + lifetimeMs },
  })
  sessions.push(session)
}

/** A buyer pays a session from a wallet of their own. */
export function sendTransfer(world: World, session: Session, value: number): void {
  const { chain, scheduler, sent } = world
  const transaction = `0x${hash('sha256', `${scheduler.seed} transfer ${sent.length}`, 'hex')}`
  const key = transferKey(testNetwork, transaction, 'transfer:0')
  const payer = `0x${sent.length.toString(16).padStart(40, '3')}`
  chain.topUp(payer, value)
  chain.send({ hash: transaction, uses: [{ key, payer, value, validBeforeMs: Infinity, isPlain: true }] })
  sent.push({ nonce: `transfer ${sent.length}`, transaction, key, session, isExact: value === PRICE })
  world.tell('sent', transaction.slice(0, 8), session.id.slice(-2), value)
}

/** A client queries a process about a session; the response arrives, or never, if the process dies. @returns whether it takes requests */
export function withSessionRoutes(
  world: World,
  process: GatewayProcess,
  callRoutes: (sessionRoutes: SessionRoutes) => Promise<string>,
  got?: (outcome: string) => void,
): boolean {
  if (!process.isUp || process.isDead) return false
  const run = () =>
    void callRoutes(process.sessionRoutes!).then(
      (outcome) => {
        world.tell('heard', outcome)
        got?.(outcome)
      },
      (error: unknown) => {
        world.misuse ??= error as Error
      },
    )
  world.scheduler.at(Math.max(0, process.frozenUntilMs - world.scheduler.nowMs), process, run)
  return true
}
