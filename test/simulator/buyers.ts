import { hash } from 'node:crypto'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { encodeHeader } from '../../core/x402/header.ts'
import { identifierName } from '../../core/x402/paymentIdentifier.ts'
import type { Scheme } from '../../core/x402/types.ts'
import { callThrough, MemoryTransport } from '../helpers/memoryTransport.ts'
import { testAsset, testNetwork } from '../helpers/settler.ts'
import { Chain } from './chain.ts'
import type { GatewayProcess } from './gatewayProcess.ts'
import { signAuthorisation, walletOf } from './wallets.ts'
import type { World } from './world.ts'

/** What every call and every session costs, in the smallest unit. */
export const PRICE = 100_000

/** A payment that a buyer has signed. */
export interface Signed {
  readonly nonce: string
  /** Whose wallet it is, by name. */
  readonly buyer: string
  readonly payer: string
  readonly key: string
  readonly validBeforeMs: number
  /**
   * The call that it is meant for: 0 is charged after the answer, 1 before, 2 by its use after the answer, and 3 by its use at the
   * end of a stream. Of a session's it is none: -1.
   */
  readonly link: number
  readonly header: string
  /** Its buyer never comes back for an answer once the trouble is over. */
  readonly isGivenUp: boolean
  /** The id that its buyer has given it, and perhaps another one. */
  readonly identifier?: string | undefined
}

/** One call of a buyer, for the judgement in the end. */
export interface Asked {
  readonly payment: Signed
  readonly link: number
  readonly path: string
  readonly what: string
  readonly transport: MemoryTransport
  readonly x: Exchange
  readonly process: GatewayProcess
  /** The lease that its process had. */
  readonly lease: number
  readonly startedAtMs: number
  /** Virtual time at which the answer was whole. */
  gotAtMs: number
}

/** A claim that was won, as the store has it. */
export interface Claim {
  readonly key: string
  readonly purchaseId: string
  readonly atMs: number
}

/** Where gateways share a key they look at real signatures. */
export function sign(
  world: World,
  nonce: string,
  buyer: string,
  {
    link,
    validForMs,
    isGivenUp = false,
    identifier,
    scheme = 'exact',
  }: Pick<Signed, 'link' | 'identifier'> & {
    readonly validForMs: number
    readonly isGivenUp?: boolean
    readonly scheme?: Scheme
  },
): Signed {
  const extensions =
    identifier === undefined ? undefined : { [identifierName]: { info: { required: false, id: identifier } } }
  const validBeforeMs = Chain.timeOf(world.scheduler.nowMs) + validForMs
  if (world.isShared) {
    const { authorisation, header } = signAuthorisation(walletOf(buyer), {
      nonce,
      value: PRICE,
      validBeforeMs,
      extensions,
    })
    const { key, payer } = authorisation
    world.authorisations.set(key, authorisation)
    const { validBeforeMs: endMs } = authorisation
    return { nonce, buyer, payer, link, validBeforeMs: endMs, header, key, isGivenUp, identifier }
  }
  const payer = `0x${hash('sha256', buyer, 'hex').slice(24)}`
  const header = encodeHeader({
    x402Version: 2,
    accepted: { scheme, network: testNetwork, asset: testAsset },
    payload: { payer, nonce, validBeforeMs },
    extensions,
  })
  const key = hash('sha256', `${payer}|${nonce}`, 'hex')
  return { nonce, buyer, payer, link, validBeforeMs, header, key, isGivenUp, identifier }
}

/** A buyer calls a link with his payment. @returns undefined when the process takes no calls */
export function ask(
  world: World,
  payment: Signed,
  link: number,
  path: string,
  process: GatewayProcess,
): Asked | undefined {
  if (!process.isUp || process.isDead) return undefined
  const { scheduler, store } = world
  const served = store.served[link]!
  const transport = new MemoryTransport()
  const startedAtMs = scheduler.nowMs
  const x = callThrough(transport, served, { subPath: path, paymentHeader: payment.header, startedAtMs })
  const what = `${served.slug}${path}`
  const lease = process.lease!.current.id
  const asked: Asked = {
    ...{ payment, link, path, what, transport, x, process, lease, startedAtMs },
    gotAtMs: Infinity,
  }
  world.requests.push(asked)
  void transport.ended.then((got) => {
    if (got !== undefined) asked.gotAtMs = scheduler.nowMs
    world.tell('got', payment.nonce, what, got?.status, got?.body)
    // No transfer would show that this call was sold.
    if (got?.status === 200 && x.chargeAtomic === 0n && world.fails(0.2)) world.powerCut()
  })
  world.tell('ask', payment.nonce, payment.key.slice(0, 6), what, process.name)
  const standsMs = Math.max(0, process.frozenUntilMs - startedAtMs)
  scheduler.at(standsMs, process, () => process.call(x, served))
  return asked
}
