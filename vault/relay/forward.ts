import { verify } from 'node:crypto'
import { publicKeyObject } from '../remote/channel/keyPair.ts'
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
import type { Routes } from './routes.ts'

const keyBytes = 32

/** Decides what to do with one frame of one connection. Looks at its type and its address, at nothing else. */
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
    if (routes.unregister(route, vault)) tellOfLoss(routes, route)
  }

  function attach(agent: Peer, id: Buffer): void {
    if (id.byteLength !== routeBytes || agent.isIdentified)
      return agent.end(closeCodes.badFrame, 'bad attachment')
    const route = id.toString('hex')
    if (routes.agentsOf(route).size >= limits.maxAgentsPerRoute) {
      const largest = makeRoomFor(agent, routes.agentsOf(route))
      if (largest === undefined) return agent.end(closeCodes.tooMany, 'too many for one routing id')
      // At once, and not when its end was heard: the place is given to another.
      routes.remove(largest)
      routes.vaultOf(route)?.send(frame(frameTypes.gone, uint32(largest.id)), route, largest)
      largest.end(closeCodes.tooMany, 'others come from fewer connections')
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
    // A vault reaches the agents of its own routing ids only.
    if (agent === undefined || route === undefined || routes.vaultOf(route) !== vault)
      return vault.send(frame(frameTypes.gone, rest.subarray(0, 4)))
    // A slow agent is let go instead of holding back the vault, which serves others too; it comes back and asks again.
    if (agent.isFull) return agent.end(closeCodes.tooSlow, 'too slow')
    agent.send(frame(frameTypes.payload, rest.subarray(4)))
  }
}

/** After a vault left a route: whoever proved it before has it again, and the agents hear whether there is one. */
export function tellOfLoss(routes: Routes, route: string): void {
  const heir = routes.vaultOf(route)
  heir?.send(frame(frameTypes.registered, Buffer.from(route, 'hex')))
  const told = heir === undefined ? frameTypes.absent : frameTypes.present
  for (const agent of routes.agentsOf(route)) agent.send(frame(told))
}

function isProven(challenge: Buffer, publicKey: Buffer, signature: Buffer): boolean {
  try {
    const signed = registrationBytes(challenge, publicKey)
    return verify(null, signed, publicKeyObject('Ed25519', publicKey), signature)
  } catch {
    return false // no point of the curve
  }
}
