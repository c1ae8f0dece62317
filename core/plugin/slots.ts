import type { Exchange } from './exchange.ts'

/** The values that a phase of a call passes to later phases. They are fields of the exchange. */
export const paymentSlots = [
  'payment',
  'signedIn',
  'claim',
  'response',
  'chargeAtomic',
  'settlement',
  'purchase',
] as const
export type PaymentSlot = (typeof paymentSlots)[number]

/** Name of a slot that a plugin declared as its own, which begins with the plugin's name, such as `health/counted`. */
export type OwnSlotName = `${string}/${string}`
export type Slot = PaymentSlot | OwnSlotName

/** The slots that a plugin's hooks of one phase read from earlier hooks and write for later hooks. */
export interface SlotUse {
  /** Slots that an earlier hook of the same pipeline must write. Otherwise the pipeline is invalid. */
  readonly reads?: readonly Slot[]
  /** Slots that the hook reads if they are set. */
  readonly mayRead?: readonly Slot[]
  /** Slots that the hook always sets, so that later hooks may rely on them. */
  readonly writes?: readonly Slot[]
  /** Slots that the hook writes only in some calls, so that later hooks must not rely on them. */
  readonly mayWrite?: readonly Slot[]
}

/** A plugin's own slot, which has a value in every call. A plugin gets the slot once, by `env.slot(name)` in `setup`. */
export interface OwnSlot<T> {
  /** @returns the initial value until a hook writes the slot */
  get(x: Exchange): T
  set(x: Exchange, value: T): void
}

/** Another plugin's slot. Its value is undefined if that plugin is not in the configuration. */
export type ForeignSlot<T> = Pick<OwnSlot<T | undefined>, 'get'>

/** Initial values of a plugin's own slots, by name. Each slot has the type of its initial value. */
export type OwnSlots = Readonly<Record<OwnSlotName, unknown>>

/** Gives a plugin the slots that it declared. */
export interface SlotSource<O extends OwnSlots> {
  <K extends keyof O>(name: K): OwnSlot<O[K]>
  <T = unknown>(name: OwnSlotName): ForeignSlot<T>
}

/** Slots that must be set once a call was charged. Any plugin of the pipeline may write them. */
const charging: readonly PaymentSlot[] = ['payment', 'claim', 'settlement', 'purchase']
/** The slot with the response that is sold. */
const sold: PaymentSlot = 'response'

/**
 * The problems of a pipeline whose calls a wallet's signature admits. Without a plugin that checks the signature, every caller would
 * be admitted.
 */
export const signInGaps = (
  steps: readonly {
    readonly uses: { readonly writes?: readonly string[]; readonly mayWrite?: readonly string[] }
  }[],
): readonly string[] =>
  steps.some(({ uses }) => [...(uses.writes ?? []), ...(uses.mayWrite ?? [])].includes('signedIn'))
    ? []
    : [
        'No plugin checks the sign-ins of a link with access, so every caller would be served. Add x402, without `when.paid`.',
      ]

/**
 * The slots that the pipeline of a paid link lacks. Without one of them, a call would be served unpaid, served twice, or charged
 * and not recorded.
 *
 * @param writersOf names the plugins that could be added because they write a slot, for the message
 * @returns `nothing` if the pipeline is complete, `everything` if it accepts no payment at all, as on a gateway with only free
 *   links
 */
export function paidGaps(
  steps: readonly { readonly uses: { readonly writes?: readonly string[] } }[],
  writersOf: (slot: PaymentSlot) => readonly string[],
): 'nothing' | 'everything' | readonly string[] {
  const isWritten = (slot: PaymentSlot) => steps.some(({ uses }) => uses.writes?.includes(slot))
  const missing = [...charging, sold].filter((slot) => !isWritten(slot))
  if (missing.length === 0) return 'nothing'
  if (!charging.some(isWritten)) return 'everything'
  return missing.map((slot) => {
    const writers = [...writersOf(slot), 'a plugin of your own that does']
    return `No plugin writes ${slot} for a paid link, so its calls would not be paid correctly. Add ${writers.join(', or ')}.`
  })
}
