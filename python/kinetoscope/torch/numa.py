"""How far a thread is from its GPU: nodes of the machine and their distances, as the kernel tells
them. Raw numbers; the report judges. What is not known is None."""

from pathlib import Path

PROCESSOR = 36  # of /proc/PID/stat, counted behind the name


def node_of_thread(task, root="/"):
    """The node of the core that the thread of /proc/`task` ran on last."""
    stat = (Path(root) / "proc" / task / "stat").read_text()
    core = stat.rpartition(")")[2].split()[PROCESSOR]
    for folder in (Path(root) / "sys/devices/system/cpu" / f"cpu{core}").glob("node[0-9]*"):
        return int(folder.name[len("node") :])
    return None


def node_of_gpu(torch, root="/"):
    """The node that the current GPU of the process is attached to."""
    if not torch.cuda.is_initialized():
        return None
    about = torch.cuda.get_device_properties(torch.cuda.current_device())
    numbers = (about.pci_domain_id, about.pci_bus_id, about.pci_device_id)
    device = "{:04x}:{:02x}:{:02x}.0".format(*numbers)
    text = (Path(root) / "sys/bus/pci/devices" / device / "numa_node").read_text()
    return int(text) if int(text) >= 0 else None


def distance(node, other, root="/"):
    """10: the same node."""
    nodes = Path(root) / "sys/devices/system/node"
    online = sorted(int(path.name[len("node") :]) for path in nodes.glob("node[0-9]*"))
    return int((nodes / f"node{node}" / "distance").read_text().split()[online.index(other)])
