import { sign } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { type Clock, systemClock } from '../../core/ports/clock.ts'
import { type Log, silentLog } from '../../core/ports/log.ts'
import { frame, frameTypes, registrationBytes, routeBytes } from '../relay/frames.ts'
import { fromStored, privateKeyObject } from './channel/keyPair.ts'
import { hpkeKeyOf, type VaultIdentity } from './identity.ts'
import type { LivePairing } from './livePairing.ts'
import { type NewPairing, PairingDesk, type PairingQuestion } from './pairingDesk.ts'
import type { PairingStore, PairingView } from './pairingRecord.ts'
import { type Backoff, type LinkConnection, type RelayLink, startRelayLink } from './relayLink.ts'
import { relayUrl } from './relayUrl.ts'
import type { RemoteAnswer, RemoteRequest } from './remoteRequest.ts'
import { createVaultEnd } from './vaultEnd.ts'

export interface ConnectorOptions {
  readonly identity: VaultIdentity
  /** `wss://host[:port]`; `ws://` for a relay on this machine. */
  readonly relay: string
  readonly store: PairingStore
  /**
   * Performs one call of a paired agent. May take long: the proxy waits for three minutes. What it throws becomes the
   * error answer. Called once for each call, however often its message arrives.
   */
  readonly handle: (request: RemoteRequest) => Promise<RemoteAnswer>
  /** Asks the owner whether the proxy shows the same four words. */
  readonly confirm: (question: PairingQuestion) => Promise<boolean>
  /**
   * After every change of a pairing's state, once it is stored; here the host writes its log, and makes or ends the agent.
   * A crash may come between the two, so the host compares {@link Connector.pairings} with its agents at the start.
   */
  readonly onChange?: (pairing: PairingView) => void | Promise<void>
  /** PEM of the relay's certificate authority, where it has one of its own. */
  readonly ca?: string
  readonly backoff?: Backoff
  /** How long one message of a pairing proxy waits for the owner before it is told to ask again; 20 000 ms. */
  readonly confirmWaitMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

/** What the owner hands to the remote machine. The token is told once and not kept. */
export interface PairingOffer {
  readonly pairing: PairingView
  readonly token: string
  /** The whole command line: `tollgate proxy --pair … --port 8421`. */
  readonly command: string
}

export interface Connector {
  /** Whether the relay is connected, and how many routing ids it has confirmed. */
  readonly state: { readonly isConnected: boolean; readonly routes: number }
  createPairing(input: NewPairing): Promise<PairingOffer>
  pairings(): readonly PairingView[]
  /** Lets one go on that a restore suspended. @throws VaultError `NOT_FOUND`. */
  resume(pairingId: string): Promise<PairingView>
  /** The agent can do nothing from now on; a call under way ends without an answer. @throws `NOT_FOUND`. */
  revoke(pairingId: string): Promise<PairingView>
  /** Takes a rotated identity into use, which the host has stored before. Old keys go on working. */
  useIdentity(identity: VaultIdentity): void
  /** Disconnects, once what is under way was answered. Agents hear that the vault is away; every session key is zeroed. */
  close(): Promise<void>
}

/** How long calls that are under way may hold up {@link Connector.close}, in milliseconds. */
const FAREWELL_MS = 1_000

/**
 * Connects a vault to its relay, as soon as there is a pairing, and serves the agents that are paired with it. Fulfilled when
 * the pairings are read, whether or not the relay can be reached yet.
 *
 * @throws Error for a relay address that can not be used, or what the store throws.
 */
export async function startConnector(options: ConnectorOptions): Promise<Connector> {
  const {
    relay,
    store,
    handle,
    confirm,
    onChange,
    ca,
    backoff,
    confirmWaitMs,
    clock = systemClock,
    log = silentLog,
  } = options
  const url = relayUrl(relay)
  let identity = options.identity
  const current = () => identity
  const desk = new PairingDesk({ identity: current, store, confirm, onChange, confirmWaitMs, clock, log })
  await desk.open()
  const receive = createVaultEnd({ identity: current, desk, handle, clock, log })
  const registered = new Set<string>()
  const underWay = new Set<Promise<void>>()
  let connections = 0
  let up: { readonly connection: LinkConnection; readonly challenge: Buffer } | undefined

  let link: RelayLink | undefined
  let isClosed = false
  /** Not before there is a pairing: a relay lets go who has no routing id to register. */
  function connect(): void {
    if (isClosed) return
    link ??= startRelayLink(
      { url, log, ...(ca === undefined ? {} : { ca }), ...(backoff ? { backoff } : {}) },
      {
        onUp(connection, challenge) {
          connections++
          up = { connection, challenge }
          for (const live of desk.all()) register(live)
        },
        onFrame(connection, type, rest) {
          const route = rest.subarray(0, routeBytes).toString('hex')
          if (type === frameTypes.fromAgent) return fromAgent(connection, rest)
          if (type === frameTypes.registered) registered.add(route)
          if (type === frameTypes.replaced) registered.delete(route)
          const warning = warnings[type]
          if (warning !== undefined) log.warn({ relay: url.host }, warning)
        },
        onDown(reason) {
          if (up !== undefined) log.warn({ relay: url.host, reason }, 'the relay is gone; connecting again')
          up = undefined
          registered.clear()
        },
      },
    )
  }
  if (desk.all().length > 0) connect()

  function register({ record }: LivePairing): void {
    if (up === undefined) return
    const keys = fromStored(record.routing)
    const signed = registrationBytes(up.challenge, keys.publicKey)
    const proof = sign(null, signed, privateKeyObject('Ed25519', keys))
    up.connection.send(frame(frameTypes.register, keys.publicKey, proof))
  }

  function fromAgent(connection: LinkConnection, rest: Buffer): void {
    if (rest.byteLength < 4 + routeBytes) return
    const agent = rest.subarray(0, 4)
    const route = rest.subarray(4, 4 + routeBytes)
    const path = {
      id: `${connections} ${agent.readUInt32BE()}`,
      send: (sealed: Buffer) => connection.send(frame(frameTypes.toAgent, agent, sealed)),
    }
    const answered = receive(route, rest.subarray(4 + routeBytes), path)
    underWay.add(answered)
    void answered.finally(() => underWay.delete(answered))
  }

  return {
    get state() {
      return { isConnected: link?.isUp ?? false, routes: registered.size }
    },
    async createPairing(input) {
      const { live, token } = await desk.create(input)
      connect()
      register(live)
      const { vaultId } = identity
      const values = { token, serviceId: input.serviceId, vaultId, hpkeKey: hpkeKeyOf(identity), relay }
      return { pairing: desk.view(live), token, command: pairCommand(values) }
    },
    pairings: () => desk.all().map(desk.view),
    resume: (pairingId) => desk.resume(pairingId),
    revoke: (pairingId) => desk.revoke(pairingId),
    useIdentity(next) {
      identity = next
    },
    async close() {
      isClosed = true
      desk.close()
      // Nobody waits any more, so what is under way is answered before the way is closed: no agent is left waiting.
      await Promise.race([Promise.all(underWay), wait(FAREWELL_MS, undefined, { ref: false })])
      await link?.close()
    },
  }
}

const warnings: Readonly<Record<number, string>> = {
  [frameTypes.refused]: 'the relay refused a pairing; it may hold too many',
  [frameTypes.replaced]: 'another connection of this vault took a pairing over; is the vault running twice?',
}

/** The values of the command that starts a proxy. */
interface PairCommand {
  readonly token: string
  readonly serviceId: string
  readonly vaultId: string
  /** Base64. */
  readonly hpkeKey: string
  /** `wss://…` */
  readonly relay: string
  readonly port?: number
}

/** Port of the proxy where nobody says otherwise. */
const DEFAULT_PROXY_PORT = 8421

/** The command to be run where the agent is; safe to paste into a shell. */
function pairCommand({ token, serviceId, vaultId, hpkeKey, relay, port }: PairCommand): string {
  const options = {
    pair: token,
    'service-id': serviceId,
    vault: vaultId,
    'hpke-key': hpkeKey,
    relay,
    port: String(port ?? DEFAULT_PROXY_PORT),
  }
  const words = Object.entries(options).flatMap(([name, value]) => [`--${name}`, quoted(value)])
  return ['tollgate', 'proxy', ...words].join(' ')
}

const quoted = (value: string): string =>
  /^[A-Za-z0-9_.:/+=@-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`
