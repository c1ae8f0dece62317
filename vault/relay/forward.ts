import { verify } from 'node:crypto'
import { publicKeyObject } from '../channel/suite.ts'
import {
  frame,
  frameTypes,
  registrationBytes,
  routeBytes,
  routeOf,
  signatureBytes,
  uint32,
} from './frames.ts'
import type { RelayLimits } from './limits.ts'
import { closeCodes, makeRoomFor, type Peer } from './peer.ts'

const keyBytes = 32

/** Decides what to do with a frame of a connection. It uses only the frame's type and address. */
export function createForwarder(
  routes: Routes,
  peers: ReadonlyMap<number, Peer>,
  challengeOf: (peer: Peer) => Buffer,
  limits: RelayLimits,
): (peer: Peer, bytes: Buffer) => void {
  return (peer, bytes) => {
    const rest = bytes.subarray(1)
    switch (bytes[0]) {
      case frameTypes.payload:
        return toVault(peer, rest)
      case frameTypes.toAgent:
        return toAgent(peer, rest)
      case frameTypes.register:
        return register(peer, rest)
      case frameTypes.unregister:
        return unregister(peer, rest)
      case frameTypes.attach:
        return attach(peer, rest)
      default:
        return peer.end(closeCodes.badFrame, 'unknown frame')
    }
  }

  function register(vault: Peer, rest: Buffer): void {
    if (rest.byteLength !== keyBytes + signatureBytes || routes.routeOfAgent(vault) !== undefined)
      return vault.end(closeCodes.badFrame, 'bad registration')
    const [key, signature] = [rest.subarray(0, keyBytes), rest.subarray(keyBytes)]
    const id = routeOf(key)
    const route = id.toString('hex')
    const held = routes.routesOfVault(vault)
    const hasRoom = held.has(route) || held.size < limits.maxRoutesPerVault
    if (!hasRoom || !isProven(challengeOf(vault), key, signature))
      return vault.send(frame(frameTypes.refused, id))
    vault.isIdentified = true
    routes.register(route, vault)?.send(frame(frameTypes.replaced, id))
    vault.send(frame(frameTypes.registered, id))
    for (const agent of routes.agentsOf(route)) agent.send(frame(frameTypes.present))
  }

  function unregister(vault: Peer, id: Buffer): void {
    const route = id.toString('hex')
    if (routes.unregister(route, vault)) reportLoss(routes, route)
  }

  function attach(agent: Peer, id: Buffer): void {
    if (id.byteLength !== routeBytes || agent.isIdentified)
      return agent.end(closeCodes.badFrame, 'bad attachment')
    const route = id.toString('hex')
    if (routes.agentsOf(route).size >= limits.maxAgentsPerRoute) {
      const largest = makeRoomFor(agent, routes.agentsOf(route))
      if (largest === undefined) return agent.end(closeCodes.tooMany, 'too many for one routing id')
      // The connection is removed at once, because the close event comes later and its slot goes to another connection now.
      routes.remove(largest)
      routes.vaultOf(route)?.send(frame(frameTypes.gone, uint32(largest.id)), route, largest)
      largest.end(closeCodes.tooMany, 'too many connections from one address')
    }
    agent.isIdentified = true
    routes.attach(route, agent)
    agent.send(frame(routes.vaultOf(route) ? frameTypes.present : frameTypes.absent))
  }

  function toVault(agent: Peer, payload: Buffer): void {
    const route = routes.routeOfAgent(agent)
    if (route === undefined) return agent.end(closeCodes.badFrame, 'not attached')
    const vault = routes.vaultOf(route)
    if (vault === undefined) return agent.send(frame(frameTypes.absent))
    vault.send(
      frame(frameTypes.fromAgent, uint32(agent.id), Buffer.from(route, 'hex'), payload),
      route,
      agent,
    )
  }

  function toAgent(vault: Peer, rest: Buffer): void {
    if (rest.byteLength < 4 || !vault.isIdentified) return vault.end(closeCodes.badFrame, 'bad answer')
    const agent = peers.get(rest.readUInt32BE())
    const route = agent && routes.routeOfAgent(agent)
    // A vault can send only to the agents of its own routing ids.
    if (agent === undefined || route === undefined || routes.vaultOf(route) !== vault)
      return vault.send(frame(frameTypes.gone, rest.subarray(0, 4)))
    // A slow agent is disconnected, because it would delay the vault, which serves other agents too. The agent reconnects and
    // repeats its request.
    if (agent.isFull) return agent.end(closeCodes.tooSlow, 'too slow')
    agent.send(frame(frameTypes.payload, rest.subarray(4)))
  }
}

/**
 * Called after a vault left a route. The previous vault with a proof gets the route back, and the agents are notified whether
 * there is one.
 */
export function reportLoss(routes: Routes, route: string): void {
  const heir = routes.vaultOf(route)
  heir?.send(frame(frameTypes.registered, Buffer.from(route, 'hex')))
  const frameType = heir === undefined ? frameTypes.absent : frameTypes.present
  for (const agent of routes.agentsOf(route)) agent.send(frame(frameType))
}

function isProven(challenge: Buffer, publicKey: Buffer, signature: Buffer): boolean {
  try {
    const signed = registrationBytes(challenge, publicKey)
    return verify(null, signed, publicKeyObject('Ed25519', publicKey), signature)
  } catch {
    return false // not a point of the curve
  }
}

/** The vault and agents of each routing id, in memory only. Keys are hex. */
export class Routes {
  /** For each routing id, all connected vaults that proved it. The last one has the id. */
  readonly #vaults = new Map<string, Peer[]>()
  readonly #routesOf = new Map<Peer, Set<string>>()
  readonly #agents = new Map<string, Set<Peer>>()
  readonly #routeOf = new Map<Peer, string>()

  /** Gives a route to a vault. @returns the connection that had it before, if it was another one */
  register(route: string, vault: Peer): Peer | undefined {
    const before = this.vaultOf(route)
    const others = (this.#vaults.get(route) ?? []).filter((one) => one !== vault)
    this.#vaults.set(route, [...others, vault])
    const routes = this.#routesOf.get(vault) ?? new Set()
    routes.add(route)
    this.#routesOf.set(vault, routes)
    return before === vault ? undefined : before
  }

  /** Takes a route from a vault. @returns whether the vault had it. The previous vault with a proof then gets it back */
  unregister(route: string, vault: Peer): boolean {
    const all = this.#vaults.get(route) ?? []
    const left = all.filter((one) => one !== vault)
    if (left.length > 0) this.#vaults.set(route, left)
    else this.#vaults.delete(route)
    this.#routesOf.get(vault)?.delete(route)
    return all.at(-1) === vault
  }

  attach(route: string, agent: Peer): void {
    const agents = this.#agents.get(route) ?? new Set()
    agents.add(agent)
    this.#agents.set(route, agents)
    this.#routeOf.set(agent, route)
  }

  /** Removes a connection. @returns the routes that it had. They are free, or back with their previous vault */
  remove(peer: Peer): readonly string[] {
    const held = [...(this.#routesOf.get(peer) ?? [])]
    const lost = held.filter((route) => this.unregister(route, peer))
    this.#routesOf.delete(peer)
    const route = this.#routeOf.get(peer)
    if (route !== undefined) {
      const agents = this.#agents.get(route)
      agents?.delete(peer)
      if (agents?.size === 0) this.#agents.delete(route)
      this.#routeOf.delete(peer)
    }
    return lost
  }

  vaultOf = (route: string): Peer | undefined => this.#vaults.get(route)?.at(-1)
  agentsOf = (route: string): ReadonlySet<Peer> => this.#agents.get(route) ?? none
  routeOfAgent = (agent: Peer): string | undefined => this.#routeOf.get(agent)
  routesOfVault = (vault: Peer): ReadonlySet<string> => this.#routesOf.get(vault) ?? noRoutes

  get counts(): { readonly routes: number; readonly agents: number } {
    return { routes: this.#vaults.size, agents: this.#routeOf.size }
  }
}

const none: ReadonlySet<Peer> = new Set()
const noRoutes: ReadonlySet<string> = new Set()
