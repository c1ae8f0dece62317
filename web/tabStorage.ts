/**
 * What this tab remembers when its page is loaded again, and forgets when it is closed. In a browser that keeps nothing it does
 * nothing: reading the property throws there.
 */
export const keptInTab = (key: string): string | null => inStorage((storage) => storage.getItem(key)) ?? null
export const keepInTab = (key: string, value: string): void =>
  void inStorage((storage) => storage.setItem(key, value))
export const forgetInTab = (key: string): void => void inStorage((storage) => storage.removeItem(key))

interface TabStorage {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
}

function inStorage<T>(use: (storage: TabStorage) => T): T | undefined {
  try {
    return use((globalThis as unknown as { readonly sessionStorage: TabStorage }).sessionStorage)
  } catch {
    return undefined
  }
}
