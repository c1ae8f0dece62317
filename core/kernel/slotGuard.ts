import type { Exchange } from '../plugin/exchange.ts'
import {
  type AnyGatewayPlugin,
  afterResponsePhases,
  gatewayPhases,
  type RouteHooks,
} from '../plugin/gateway.ts'
import { type OwnSlot, paymentSlots, type Slot, type SlotUse } from '../plugin/slots.ts'

/** Called when a hook has read or written a slot that its plugin did not declare for that phase. */
export type OnSlotMisuse = (error: Error) => void

/** A plugin's own view of one call, and the phase in which the plugin runs. */
interface View {
  readonly x: Exchange
  phase: string
}

/**
 * Gives each plugin a view of the call, in tests. The view throws if the plugin uses a slot that it has not declared. A plugin gets
 * the same view of a call in all phases, so that its maps with calls as keys work.
 */
export class SlotGuard {
  readonly #viewsByCall = new WeakMap<Exchange, Map<AnyGatewayPlugin, View>>()
  readonly #viewOf = new WeakMap<Exchange, View>()
  readonly #onMisuse: OnSlotMisuse

  constructor(onMisuse: OnSlotMisuse) {
    this.#onMisuse = onMisuse
  }

  /** The same hooks, which now get the plugin's view of the call. */
  hooks(plugin: AnyGatewayPlugin, hooks: RouteHooks): RouteHooks {
    const guarded: Record<string, unknown> = { dispose: () => hooks.dispose?.(), offer: hooks.offer }
    for (const phase of [...gatewayPhases, ...afterResponsePhases]) {
      const hook = hooks[phase]
      if (hook) guarded[phase] = (x: Exchange) => hook.call(hooks, this.#view(plugin, phase, x))
    }
    return guarded
  }

  /** The same slot, for plugins that pass their view of the call. */
  slot(plugin: AnyGatewayPlugin, name: Slot, slot: OwnSlot<unknown>): OwnSlot<unknown> {
    return {
      get: (x) => {
        this.#check(plugin, name, 'read', this.#viewOf.get(x)?.phase)
        return slot.get(x)
      },
      set: (x, value) => {
        this.#check(plugin, name, 'write', this.#viewOf.get(x)?.phase)
        slot.set(x, value)
      },
    }
  }

  #view(plugin: AnyGatewayPlugin, phase: string, x: Exchange): Exchange {
    let views = this.#viewsByCall.get(x)
    if (views === undefined) this.#viewsByCall.set(x, (views = new Map()))
    let view = views.get(plugin)
    if (view === undefined) views.set(plugin, (view = this.#makeView(plugin, phase, x)))
    view.phase = phase
    return view.x
  }

  #makeView(plugin: AnyGatewayPlugin, phase: string, x: Exchange): View {
    const guard = (key: string | symbol, how: 'read' | 'write') => {
      if (!isPaymentSlot(key)) return
      this.#check(plugin, key, how, view.phase)
    }
    const seen = new Proxy(x, {
      get(target, key, receiver) {
        guard(key, 'read')
        return Reflect.get(target, key, receiver)
      },
      set(target, key, value) {
        guard(key, 'write')
        return Reflect.set(target, key, value)
      },
    })
    const view: View = { x: seen, phase }
    this.#viewOf.set(seen, view)
    return view
  }

  #check(plugin: AnyGatewayPlugin, slot: Slot, how: 'read' | 'write', phase: string | undefined): void {
    const declared = plugin.slots as { readonly [phase: string]: SlotUse } | undefined
    const use = phase === undefined ? undefined : declared?.[phase]
    const written = [...(use?.writes ?? []), ...(use?.mayWrite ?? [])]
    const allowed = how === 'write' ? written : [...written, ...(use?.reads ?? []), ...(use?.mayRead ?? [])]
    if (allowed.includes(slot)) return
    const error = new Error(
      `Plugin ${plugin.name} ${how === 'write' ? 'wrote' : 'read'} slot ${slot} in phase ${phase ?? '(none)'} without declaring it.`,
    )
    this.#onMisuse(error)
    throw error
  }
}

const isPaymentSlot = (key: string | symbol): key is (typeof paymentSlots)[number] =>
  (paymentSlots as readonly (string | symbol)[]).includes(key)
