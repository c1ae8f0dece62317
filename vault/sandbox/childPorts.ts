import type { ApprovalQueue, ApprovalRequest, VaultPorts } from '../../core/plugin/vault.ts'
import type { EgressResponse } from '../../core/ports/egress.ts'
import type { Log } from '../../core/ports/log.ts'
import type { FromPlugin, QueueFacts, ToPlugin, WireError } from './wire.ts'

export interface ChildPorts {
  readonly ports: VaultPorts
  /** Handles the vault's messages that concern the ports. */
  take(message: ToPlugin): void
}

interface Asked {
  resolve(value: unknown): void
  reject(error: Error): void
}

/** A plugin's ports in its own process. Messages of the vault bring their state. Actions are requested from the vault. */
export function createChildPorts(send: (message: FromPlugin) => void): ChildPorts {
  const asked = new Map<number, Asked>()
  const questions = new Map<string, ApprovalRequest>()
  const watchers = new Set<(approval: ApprovalRequest) => void>()
  const lockWatchers = new Set<(isLocked: boolean) => void>()
  let nextId = 1
  let isLocked = true
  let stored: unknown
  let reference = { now: Date.now(), at: performance.now() }

  function setFacts(facts: QueueFacts): void {
    isLocked = facts.isLocked
    stored = facts.stored
    setTime(facts.now)
    questions.clear()
    for (const approval of facts.approvals) questions.set(approval.id, approval)
  }

  const setTime = (now: number): void => {
    reference = { now, at: performance.now() }
  }

  function ask(port: string, args: readonly unknown[], signal?: AbortSignal): Promise<unknown> {
    const id = nextId++
    return new Promise((resolve, reject) => {
      const cancel = (): void => send({ t: 'cancel', id })
      const done = (): void => {
        asked.delete(id)
        signal?.removeEventListener('abort', cancel)
      }
      asked.set(id, {
        resolve(value) {
          done()
          resolve(value)
        },
        reject(error) {
          done()
          reject(error)
        },
      })
      send({ t: 'ask', id, port, args })
      if (signal?.aborted) cancel()
      else signal?.addEventListener('abort', cancel, { once: true })
    })
  }

  const approvals: ApprovalQueue = {
    open: () => [...questions.values()].filter(({ state }) => state === 'pending'),
    get: (id) => questions.get(id),
    watch(listener) {
      watchers.add(listener)
      return () => void watchers.delete(listener)
    },
    approve: async (id, decisionHash, by) => void (await ask('approve', [id, decisionHash, by])),
    deny: async (id, by) => void (await ask('deny', [id, by])),
    trouble: (problem) => void ask('trouble', [problem]).catch(() => undefined),
    isLocked: () => isLocked,
    watchLock(listener) {
      lockWatchers.add(listener)
      return () => void lockWatchers.delete(listener)
    },
  }

  const logAt =
    (level: string): Log['info'] =>
    (fields, text) =>
      send({ t: 'log', level, fields: readable(fields), text: String(text) })

  return {
    ports: {
      approvals,
      clock: { now: () => Math.round(reference.now + performance.now() - reference.at) },
      log: { debug: logAt('debug'), info: logAt('info'), warn: logAt('warn'), error: logAt('error') },
      egress: {
        async request({ signal, body, ...request }) {
          const text = body === undefined ? undefined : Buffer.from(body).toString('base64')
          const response = (await ask('egress', [{ ...request, body: text }], signal)) as {
            status: number
            headers: EgressResponse['headers']
            body: string
          }
          return { ...response, body: Buffer.from(response.body, 'base64') }
        },
      },
      store: {
        read() {
          if (isLocked) throw errorOf({ code: 'VAULT_LOCKED', message: 'The vault is locked.' })
          return stored === undefined ? undefined : structuredClone(stored)
        },
        async write(value) {
          const text = JSON.stringify(value)
          await ask('write', [text])
          if (!isLocked) stored = JSON.parse(text)
        },
      },
    },
    take(message) {
      if (message.t === 'setup' || message.t === 'start') setFacts(message.facts)
      else if (message.t === 'call') setTime(message.now)
      else if (message.t === 'lock') {
        setFacts(message.facts)
        for (const listener of [...lockWatchers]) listener(isLocked)
      } else if (message.t === 'question') {
        questions.set(message.approval.id, message.approval)
        for (const listener of [...watchers]) listener(message.approval)
      } else if (message.t === 'answer') {
        const waiting = asked.get(message.id)
        if (message.error === undefined) waiting?.resolve(message.value)
        else waiting?.reject(errorOf(message.error))
      }
    },
  }
}

const errorOf = ({ code, message }: WireError): Error =>
  Object.assign(new Error(message), code === undefined ? {} : { code })

/** JSON would omit the fields of an error. */
const readable = (fields: object): object =>
  Object.fromEntries(
    Object.entries(fields ?? {}).map(([name, value]) => [
      name,
      value instanceof Error ? { name: value.name, message: value.message } : value,
    ]),
  )
