import { sign } from 'node:crypto'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import { type KeyPair, privateKeyObject } from '../../../../vault/channel/suite.ts'
import { frame, frameTypes, registrationBytes, relayPath, routeOf } from '../../../../vault/relay/frames.ts'
import type { RelayLimits } from '../../../../vault/relay/limits.ts'
import { until } from '../../rawHttp.ts'
import { relayFor } from './world.ts'

/** A connection that uses the relay's frames directly. */
export interface Wire {
  readonly socket: WebSocket
  readonly challenge: Buffer
  /** The received frames, after the challenge. */
  readonly frames: Buffer[]
  send(type: number, ...fields: Uint8Array[]): void
  /** Waits for a frame of this type; returns it without its type. */
  next(type: number): Promise<Buffer>
  readonly closed: Promise<number>
}

/** @param from the address that a proxy in front of the relay would have seen */
export async function wire(t: Test, url: string, from?: string): Promise<Wire> {
  const headers = from === undefined ? {} : { 'x-forwarded-for': from }
  const socket = new WebSocket(url + relayPath, { headers })
  t.teardown(() => socket.terminate())
  const frames: Buffer[] = []
  socket.on('message', (data) => frames.push(data as Buffer))
  const closed = new Promise<number>((resolve) => socket.on('close', resolve))
  socket.on('error', () => {})
  await until(() => frames.length > 0 || socket.readyState === WebSocket.CLOSED, 'the challenge')
  const challenge = frames.shift()?.subarray(1) ?? Buffer.alloc(0)
  return {
    socket,
    challenge,
    frames,
    closed,
    send: (type, ...fields) => socket.send(frame(type, ...fields)),
    async next(type) {
      await until(() => frames.some((one) => one[0] === type), `frame ${type}`)
      const at = frames.findIndex((one) => one[0] === type)
      return frames.splice(at, 1)[0]!.subarray(1)
    },
  }
}

export const proofOf = (keys: KeyPair, challenge: Buffer): Buffer =>
  sign(null, registrationBytes(challenge, keys.publicKey), privateKeyObject('Ed25519', keys))

export async function vaultAt(t: Test, url: string, keys: KeyPair, from?: string): Promise<Wire> {
  const vault = await wire(t, url, from)
  vault.send(frameTypes.register, keys.publicKey, proofOf(keys, vault.challenge))
  t.same(await vault.next(frameTypes.registered), routeOf(keys.publicKey))
  return vault
}

export const limited = (t: Test, limits: Partial<RelayLimits>) => relayFor(t, { limits })

export async function agentOf(t: Test, url: string, keys: KeyPair, from?: string): Promise<Wire> {
  const agent = await wire(t, url, from)
  agent.send(frameTypes.attach, routeOf(keys.publicKey))
  await agent.next(frameTypes.present)
  return agent
}
