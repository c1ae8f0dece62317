import { sign } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { type Clock, systemClock } from '../../core/ports/clock.ts'
import { type Log, silentLog } from '../../core/ports/log.ts'
import { fromStored, privateKeyObject } from '../channel/suite.ts'
import { frame, frameTypes, registrationBytes, routeBytes } from '../relay/frames.ts'
import { hpkeKeyOf, type VaultIdentity } from './identity.ts'
import { type NewPairing, PairingQueue, type PairingRequest } from './pairingQueue.ts'
import type { LivePairing, PairingStore, PairingView } from './pairingRecord.ts'
import { type Backoff, type LinkConnection, type RelayLink, relayUrl, startRelayLink } from './relayLink.ts'
import type { RemoteRequest, RemoteResponse, RemoteRoute } from './remoteRequest.ts'
import { createVaultEnd } from './vaultEnd.ts'

export interface ConnectorOptions {
  readonly identity: VaultIdentity
  /** `wss://host[:port]`; `ws://` for a relay on this machine. */
  readonly relay: string
  readonly store: PairingStore
  /** The routes that remote agents may call. */
  readonly routes: readonly RemoteRoute[]
  /**
   * Performs one call of a paired agent, once, however often the call's message arrives. The proxy waits for three minutes. A
   * thrown error becomes the error response.
   */
  readonly handle: (request: RemoteRequest) => Promise<RemoteResponse>
  /** Asks the owner whether the proxy shows the same four words. */
  readonly confirm: (approval: PairingRequest) => Promise<boolean>
  /**
   * Called after every change of a pairing's state, once it is stored. The host then writes its log, and creates or ends the
   * agent. A crash may come between the two, so at its start the host compares {@link Connector.pairings} with its agents.
   */
  readonly onChange?: (pairing: PairingView) => void | Promise<void>
  /** PEM of the relay's certificate authority, if it is a private one. */
  readonly ca?: string
  readonly backoff?: Backoff
  /** How long one message of a pairing proxy waits for the owner before the proxy has to poll again, in ms. Default 20,000. */
  readonly confirmWaitMs?: number
  readonly clock?: Clock
  readonly log?: Log
}

/** What the owner passes to the remote machine. The token is returned once and not stored. */
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
  /** Resumes a pairing that a restore suspended. @throws VaultError `NOT_FOUND` */
  resume(pairingId: string): Promise<PairingView>
  /**
   * Revokes a pairing. From now on its agent can do nothing, and a running call ends without a response. @throws `NOT_FOUND`
   */
  revoke(pairingId: string): Promise<PairingView>
  /** Uses a rotated identity, which the host has already stored. Older keys still work. */
  useIdentity(identity: VaultIdentity): void
  /**
   * Disconnects after running calls have their responses. Agents are notified that the vault is down, and session keys are
   * zeroed.
   */
  close(): Promise<void>
}

/** How long running calls may delay {@link Connector.close}, in ms. */
const FAREWELL_MS = 1_000

/**
 * Connects a vault to its relay as soon as there is a pairing, and serves the paired agents. Fulfilled when the pairings are
 * loaded, whether or not the relay can be reached yet.
 *
 * @throws Error for an invalid relay address, or the error of the store
 */
export async function startConnector(options: ConnectorOptions): Promise<Connector> {
  const {
    relay,
    store,
    routes,
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
  const pairings = new PairingQueue({
    identity: current,
    store,
    confirm,
    onChange,
    confirmWaitMs,
    clock,
    log,
  })
  await pairings.open()
  const receive = createVaultEnd({ identity: current, pairings, routes, handle, clock, log })
  const registered = new Set<string>()
  const underWay = new Set<Promise<void>>()
  let connections = 0
  let up: { readonly connection: LinkConnection; readonly challenge: Buffer } | undefined

  let link: RelayLink | undefined
  let isClosed = false
  /** Connects after there is a pairing, because a relay disconnects a client that registers no routing id. */
  function connect(): void {
    if (isClosed) return
    link ??= startRelayLink(
      { url, log, ...(ca === undefined ? {} : { ca }), ...(backoff ? { backoff } : {}) },
      {
        onUp(connection, challenge) {
          connections++
          up = { connection, challenge }
          for (const live of pairings.all()) register(live)
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
          if (up !== undefined) log.warn({ relay: url.host, reason }, 'lost the relay and reconnects')
          up = undefined
          registered.clear()
        },
      },
    )
  }
  if (pairings.all().length > 0) connect()

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
      const { live, token } = await pairings.create(input)
      connect()
      register(live)
      const { vaultId } = identity
      const values = { token, serviceId: input.serviceId, vaultId, hpkeKey: hpkeKeyOf(identity), relay }
      return { pairing: pairings.view(live), token, command: pairCommand(values) }
    },
    pairings: () => pairings.all().map(pairings.view),
    resume: (pairingId) => pairings.resume(pairingId),
    revoke: (pairingId) => pairings.revoke(pairingId),
    useIdentity(next) {
      identity = next
    },
    async close() {
      isClosed = true
      pairings.close()
      // Nothing waits for the owner any longer, so calls in flight get their responses before the connection closes.
      await Promise.race([Promise.all(underWay), wait(FAREWELL_MS, undefined, { ref: false })])
      await link?.close()
    },
  }
}

const warnings: Readonly<Record<number, string>> = {
  [frameTypes.refused]: 'the relay refused a pairing, because this vault may have too many',
  [frameTypes.replaced]:
    'another connection of this vault took over a pairing. The vault may be running twice',
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

const DEFAULT_PROXY_PORT = 8421

/** The command to run on the agent's machine, which is safe to paste into a shell. */
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
