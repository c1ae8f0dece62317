import type { Exchange } from './exchange.ts'

/** The values that the phases of a payment hand to later ones: fields of the exchange. */
export const paymentSlots = ['payment', 'claim', 'answer', 'settlement', 'purchase'] as const
export type PaymentSlot = (typeof paymentSlots)[number]

/** A slot that a plugin declared for itself, behind its own name: `health/counted`. */
export type OwnSlotName = `${string}/${string}`
export type Slot = PaymentSlot | OwnSlotName

/** What a plugin's hooks of one phase take from earlier ones and leave for later ones. */
export interface SlotUse {
  /** Has to be there: something earlier in the same program writes it, or the program does not hold. */
  readonly reads?: readonly Slot[]
  /** Looked at where it is there. */
  readonly mayRead?: readonly Slot[]
  /** There for whatever comes after, when the hook has passed. */
  readonly writes?: readonly Slot[]
  /** Written by some calls; nobody behind may count on it. */
  readonly mayWrite?: readonly Slot[]
}

/** A slot of a plugin's own, in every call of one configuration. Made once by `env.slot(name)`, in `setup`. */
export interface OwnSlot<T> {
  /** @returns what the call began with while nobody has written */
  get(x: Exchange): T
  set(x: Exchange, value: T): void
}

/** Another plugin's slot: undefined where that plugin is not in the configuration. */
export type ForeignSlot<T> = Pick<OwnSlot<T | undefined>, 'get'>

/** What a plugin's own slots hold when a call begins, by their names; the types of the slots are those of the values. */
export type OwnSlots = Readonly<Record<OwnSlotName, unknown>>

/** Gives a plugin the slots that it declared. */
export interface SlotSource<O extends OwnSlots> {
  <K extends keyof O>(name: K): OwnSlot<O[K]>
  <T = unknown>(name: OwnSlotName): ForeignSlot<T>
}
