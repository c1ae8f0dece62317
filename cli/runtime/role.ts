/** The parts that a process can run. Other processes run the rest, on the same database. */
export const roles = ['gateway', 'admin', 'jobs'] as const
export type Role = (typeof roles)[number]

/** Whether a process runs a part. @param only the only part that it was started for. By default everything */
export const does = (part: Role, only: Role | undefined): boolean => only === undefined || only === part
