import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { frameTypes, relayPath, routeBytes } from '../../../../vault/relay/frames.ts'

export type Direction = 'to vault' | 'to agent'

/** What a relay that is not honest does with one sealed message; returns what it passes on instead. */
export type Tamper = (payload: Buffer, direction: Direction) => readonly Buffer[]

export interface TappedRelay {
  readonly url: string
  /** Every frame that went through, as the relay saw it. */
  readonly frames: Buffer[]
  /** Every sealed message, without what the relay adds. */
  readonly messages: { readonly payload: Buffer; readonly direction: Direction }[]
  /** From now on; honest at first. */
  tamper: Tamper
  /** Sends a message to the vault once more, or for the first time, over the agents' connections. */
  injectToVault(payload: Buffer): void
  /** Sends an answer to every agent. */
  sendToAgents(payload: Buffer): void
  /** Says to every agent that its vault is there. */
  sayPresent(): void
}

/** Stands before a relay and sees, records and changes what it sees: the worst that a relay can be. */
export async function tapRelay(t: Test, relay: { readonly url: string }): Promise<TappedRelay> {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, path: relayPath })
  await once(server, 'listening')
  const agents = new Set<WebSocket>()
  const clients = new Set<WebSocket>()
  const open = new Set<WebSocket>()
  const tapped: TappedRelay = {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    frames: [],
    messages: [],
    tamper: (payload) => [payload],
    injectToVault(payload) {
      for (const agent of agents) agent.send(Buffer.concat([Buffer.of(frameTypes.payload), payload]))
    },
    sendToAgents(payload) {
      for (const client of clients) client.send(Buffer.concat([Buffer.of(frameTypes.payload), payload]))
    },
    sayPresent() {
      for (const client of clients) client.send(Buffer.of(frameTypes.present))
    },
  }
  server.on('connection', (client) => {
    const upstream = new WebSocket(relay.url + relayPath)
    open.add(client).add(upstream)
    const early: Buffer[] = []
    client.on('message', (data) => {
      const bytes = data as Buffer
      if (upstream.readyState === WebSocket.OPEN) up(bytes)
      else early.push(bytes)
    })
    upstream.on('open', () => early.splice(0).forEach(up))
    const up = (bytes: Buffer): void => {
      tapped.frames.push(bytes)
      if (bytes[0] === frameTypes.attach) {
        agents.add(upstream)
        clients.add(client)
      }
      if (bytes[0] !== frameTypes.payload) return upstream.send(bytes)
      const payload = bytes.subarray(1)
      tapped.messages.push({ payload, direction: 'to vault' })
      for (const other of tapped.tamper(payload, 'to vault'))
        upstream.send(Buffer.concat([bytes.subarray(0, 1), other]))
    }
    upstream.on('message', (data) => {
      const bytes = data as Buffer
      tapped.frames.push(bytes)
      if (bytes[0] !== frameTypes.payload) return client.send(bytes)
      const payload = bytes.subarray(1)
      tapped.messages.push({ payload, direction: 'to agent' })
      for (const other of tapped.tamper(payload, 'to agent'))
        client.send(Buffer.concat([bytes.subarray(0, 1), other]))
    })
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      one.on('error', () => {})
      one.on('close', () => {
        agents.delete(upstream)
        clients.delete(client)
        open.delete(one)
        other.terminate()
      })
    }
  })
  t.teardown(async () => {
    for (const one of open) one.terminate()
    await new Promise((resolve) => server.close(resolve))
  })
  return tapped
}

/** What stands before the sealed message in a frame of the relay to a vault. */
export const addressBytes = 1 + 4 + routeBytes
