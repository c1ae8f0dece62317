import type { Commitment, Ledger } from './ledger.ts'
import type { SubscriptionMethods, SubscriptionPeer } from './rpcServer.ts'

/** Subscription methods, and the signal that the ledger has changed. */
export type Subscriptions = {
  methods: SubscriptionMethods
  /** Call it after every slot and every landed transaction. */
  onChange(): void
}

/** `signatureSubscribe` and `slotSubscribe`, with the parts that clients use to wait for a payment. */
export function createSubscriptions(ledger: Ledger): Subscriptions {
  let lastId = 0
  let notifiedSlot = ledger.slot
  const watches = new Map<number, () => void>()

  const watch = (peer: SubscriptionPeer, check: (id: number) => void) => {
    const id = ++lastId
    watches.set(id, () => check(id))
    peer.onClose(() => watches.delete(id))
    return id
  }
  const unwatch = (_peer: SubscriptionPeer, _afterAnswer: unknown, id: number) => watches.delete(id)

  return {
    methods: {
      signatureSubscribe(
        peer,
        afterResponseEnd,
        signature: string,
        config: { commitment?: Commitment } = {},
      ) {
        const { commitment = 'finalized' } = config
        const id = watch(peer, (self) => {
          const landed = ledger.find(signature)
          if (landed === undefined || landed.slot > ledger.slotAt(commitment)) return
          // A signature is reported once. The node then drops the subscription.
          watches.delete(self)
          const value = { err: landed.error }
          peer.notify('signatureNotification', self, { context: { slot: landed.slot }, value })
        })
        // The signature may have reached the commitment before the client subscribed.
        afterResponseEnd(() => watches.get(id)?.())
        return id
      },
      signatureUnsubscribe: unwatch,
      slotSubscribe(peer) {
        return watch(peer, (self) => {
          if (ledger.slot === notifiedSlot) return
          const { slot } = ledger
          peer.notify('slotNotification', self, { slot, parent: slot - 1, root: ledger.slotAt('finalized') })
        })
      },
      slotUnsubscribe: unwatch,
    },
    onChange() {
      for (const check of [...watches.values()]) check()
      notifiedSlot = ledger.slot
    },
  }
}
